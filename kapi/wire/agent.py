"""An agent for one HTTPS server, over kept connections, for requests and answers that are whole bytes.

It is used through treq's HTTPClient (``kapi.wire.prepared`` makes that cheap).  When a kept connection breaks, its request
fails, as upstream's does: a POST is never sent twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer, IResponse
from zope.interface import implementer

from kapi.process.reactor import Reactor
from kapi.wire.answer import Answer
from kapi.wire.dial import Dialer
from kapi.wire.head import header_line, request_line
from kapi.wire.pool import KeptConnections
from kapi.wire.tls.client import tls_reactor
from kapi.wire.tls.faults import CertificateFaults
from kapi.wire.transport import Stream

_CACHE_SIZE = 1000  # URIs whose first lines are kept


@implementer(IAgent)
class ServerAgent(KeptConnections[IResponse]):
    """Requests to one server at ``host`` and ``port``, whatever host the URIs name; ``options`` are those of TLS.

    ``headers`` are sent with every request.  ``limit``: bytes of an answer's body.  ``faults`` counts deprecated certificates.
    """

    def __init__(
        self,
        reactor: Reactor,
        host: str,
        port: int,
        options: IOpenSSLClientConnectionCreator,
        limit: int,
        headers: Sequence[tuple[bytes, bytes]] = (),
        faults: CertificateFaults | None = None,
        network: str = "",
    ) -> None:
        endpoint = Dialer(tls_reactor(reactor, options, faults), network=network).endpoint(host, port)
        super().__init__(reactor, endpoint.connect, limit)
        self._heads: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()
        self._headers = b"".join(b"\r\n" + header_line(*pair) for pair in headers)

    def answered(self, answer: Answer, body: bytes, stream: Stream | None = None) -> Answer:
        answer.body, answer.length = body, len(body)
        return answer

    def request(
        self, method: bytes, uri: bytes, headers: Headers | None = None, bodyProducer: IBodyProducer | None = None
    ) -> Deferred[IResponse]:
        """Fires with an Answer.  ``bodyProducer`` is a ``kapi.wire.prepared.Body``.

        Fails with the error of the connection, BadAnswer or AnswerTooLarge; cancelling ends the connection.
        """
        body = b"" if bodyProducer is None else bodyProducer.data  # type: ignore[attr-defined]
        head = self._heads.get((method, uri))
        if head is None:
            head = self._heads[(method, uri)] = _first_lines(method, uri) + self._headers
            if len(self._heads) > _CACHE_SIZE:
                self._heads.popitem(last=False)
        data = b"%s%s\r\nContent-Length: %d\r\n\r\n%s" % (head, _lines(headers), len(body), body)
        return self._ask(data)


def _first_lines(method: bytes, uri: bytes) -> bytes:
    host, slash, path = uri.partition(b"://")[2].partition(b"/")
    if not slash:
        host, mark, path = host.partition(b"?")
        path = mark + path
    return b"%s\r\n%s" % (request_line(method, b"/" + path), header_line(b"Host", host.removesuffix(b":443")))


def _lines(headers: Headers | None) -> bytes:
    """The lines without Accept-Encoding, which treq sets: the size of compressed answers would be hard to limit."""
    if headers is None:
        return b""
    return b"".join(
        b"\r\n" + header_line(name, value)
        for name, values in headers.getAllRawHeaders()
        if name != b"Accept-Encoding"
        for value in values
    )
