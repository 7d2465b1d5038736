"""An agent for one HTTPS server: HTTP/1.1 over kept connections, for requests and answers that are whole bytes.

Twisted's own agent keeps connections too, but reads answers line by line through half a dozen objects and as many
Deferreds, which costs three times what TLS does.  This one writes a request in one piece, reads an answer in one piece, up
to a limit, and fires one Deferred.  treq's HTTPClient goes on top of it (``kapi.client.prepared`` makes that cheap).
A kept connection that breaks fails the request that is on it, as upstream's: a POST is never sent twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from socket import MSG_DONTWAIT, MSG_PEEK
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import PotentialDataLoss, _ChunkedTransferDecoder
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer
from zope.interface import implementer

from kapi.client.answer import Answer, AnswerTooLarge, BadAnswer, content_length, read_head
from kapi.client.dialer import Dialer
from kapi.client.head import header_line, request_line
from kapi.client.keeping import KeptConnections
from kapi.client.tls_client import TLSReactor
from kapi.client.tls_faults import CertificateFaults

MAX_HEAD = 256 * 1024  # bytes
_HEADS = 1000  # URIs whose first lines are kept
_BREAK = b"\r\n\r\n"


class _Connection(Protocol):
    """One connection: idle, or busy with one request."""

    def __init__(self, agent: ServerAgent) -> None:
        self.agent = agent
        self.since = 0.0  # reactor seconds of becoming idle
        self.busy: Deferred[Any] | None = None
        self._begin()

    def _begin(self) -> None:
        self._raw = b""
        self._answer: Answer | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._left: int | None = None  # bytes of the body still to come; None: till the end of the connection
        self._chunks: Any = None

    def has_news(self) -> bool:
        """Whether the socket holds something that nobody asked for: that the server has closed, most likely, and the reactor
        has not come round to telling."""
        socket: Any = getattr(self.transport, "socket", None)
        try:
            return socket is None or len(socket.recv(1, MSG_PEEK | MSG_DONTWAIT)) >= 0
        except BlockingIOError:
            return False
        except OSError:
            return True

    def ask(self, data: bytes, busy: Deferred[Any]) -> None:
        self.busy = busy
        self.transport.write(data)  # type: ignore[union-attr]

    def abort(self) -> None:
        """Ends the connection; who waits is not told."""
        self.busy = None
        self.transport.abortConnection()  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        if self.busy is None:
            self.abort()  # nobody asked
            return
        try:
            if self._answer is None:
                self._raw += data
                self._read_head()
            else:
                self._read_body(data)
        except (BadAnswer, AnswerTooLarge) as problem:
            self._fail(Failure(problem))

    def _read_head(self) -> None:
        while self._answer is None:
            end = self._raw.find(_BREAK)
            if end < 0:
                if len(self._raw) > MAX_HEAD:
                    raise BadAnswer(f"server response headers exceeded {MAX_HEAD} bytes")
                return
            answer = read_head(self._raw[:end])
            rest, self._raw = self._raw[end + 4 :], b""
            if answer.code == 101:
                raise BadAnswer("unexpected 101 Switching Protocols")
            if answer.code < 200:
                self._raw = rest
                continue
            self._answer = answer
            coding = answer.headers.getRawHeaders(b"transfer-encoding")
            if answer.code in (204, 304):
                self._left = 0
            elif coding is not None:
                if len(coding) != 1 or coding[0].lower() != b"chunked":
                    raise BadAnswer("unsupported transfer encoding")
                self._chunks = _ChunkedTransferDecoder(self._add, self._end)
            else:
                self._left = content_length(answer.headers.getRawHeaders(b"content-length"))
            if self._left is not None and self._left > self.agent.limit:
                raise AnswerTooLarge(f"the answer is larger than {self.agent.limit} bytes")
            self._read_body(rest)

    def _read_body(self, data: bytes) -> None:
        if self._chunks is not None:
            try:
                self._chunks.dataReceived(data)
            except (AnswerTooLarge, BadAnswer):
                raise
            except Exception as problem:  # the decoder has a class for each of its complaints
                raise BadAnswer(f"malformed chunked encoding: {problem}") from None
        elif self._left is None:
            self._add(data)
        elif len(data) > self._left:
            raise BadAnswer("the answer is longer than its Content-Length")
        else:
            self._left -= len(data)
            self._add(data)
            if not self._left:
                self._end(b"")

    def _add(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self.agent.limit:
            raise AnswerTooLarge(f"the answer is larger than {self.agent.limit} bytes")
        self._parts.append(data)

    def _end(self, extra: bytes) -> None:
        """The answer is whole."""
        answer, busy = self._answer, self.busy
        assert answer is not None and busy is not None
        answer.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        answer.length = len(answer.body)
        self.busy = None
        self._begin()
        closing = answer.headers.getRawHeaders(b"connection", ())
        if extra or answer.version[2] == 0 or any(b"close" in value.lower() for value in closing):
            self.transport.loseConnection()  # type: ignore[union-attr]
        else:
            self.agent.free(self)
        busy.callback(answer)

    def _fail(self, why: Failure) -> None:
        busy = self.busy
        self.abort()
        if busy is not None:
            busy.errback(why)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.agent.lost(self)
        if self.busy is None:
            return
        if self._answer is not None and self._left is None and self._chunks is None:
            if reason.check(ConnectionDone, PotentialDataLoss):
                self._end(b"closed")
                return
        busy, self.busy = self.busy, None
        busy.errback(reason if self._answer is None else Failure(BadAnswer("unexpected EOF")))


@implementer(IAgent)
class ServerAgent(KeptConnections[_Connection]):
    """Requests to one server at ``host`` and ``port``, whatever host the URIs name; TLS as ``options`` say.

    ``headers`` go with every request.  ``limit`` is of an answer's body, in bytes.  ``faults`` counts certificates.
    Connections are kept as ``kapi.client.keeping`` says.
    """

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        options: Any,
        limit: int,
        headers: Sequence[tuple[bytes, bytes]] = (),
        faults: CertificateFaults | None = None,
        network: str = "",
    ) -> None:
        super().__init__(reactor)
        self._heads: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()
        self._headers = b"".join(b"\r\n" + header_line(*pair) for pair in headers)
        self._endpoint = Dialer(TLSReactor(reactor, options, faults), network=network).endpoint(host, port)
        self._factory = Factory.forProtocol(lambda: _Connection(self))
        self.limit = limit

    def request(
        self, method: bytes, uri: bytes, headers: Headers | None = None, bodyProducer: IBodyProducer | None = None
    ) -> Deferred[Any]:
        """Fires with an Answer.  ``bodyProducer`` is a Body.  Fails with what the connection failed with, with BadAnswer
        or AnswerTooLarge; cancelling ends the connection."""
        body = b"" if bodyProducer is None else bodyProducer.data  # type: ignore[attr-defined]
        head = self._heads.get((method, uri))
        if head is None:
            head = self._heads[(method, uri)] = _first_lines(method, uri) + self._headers
            if len(self._heads) > _HEADS:
                self._heads.popitem(last=False)
        data = b"%s%s\r\nContent-Length: %d\r\n\r\n%s" % (head, _lines(headers), len(body), body)
        return self._ask(lambda connection, done: connection.ask(data, done))

    def _connected(self) -> Deferred[Any]:
        made: Deferred[Any] = self._endpoint.connect(self._factory)
        return made


def _first_lines(method: bytes, uri: bytes) -> bytes:
    host, slash, path = uri.partition(b"://")[2].partition(b"/")
    if not slash:
        host, mark, path = host.partition(b"?")
        path = mark + path
    return b"%s\r\n%s" % (request_line(method, b"/" + path), header_line(b"Host", host.removesuffix(b":443")))


def _lines(headers: Headers | None) -> bytes:
    """Compressed answers are not asked for, whatever treq says: their limit would be hard to keep."""
    if headers is None:
        return b""
    return b"".join(
        b"\r\n" + header_line(name, value)
        for name, values in headers.getAllRawHeaders()
        if name != b"Accept-Encoding"
        for value in values
    )
