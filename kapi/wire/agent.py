"""An agent for treq: sends requests to one server over a pool of connections.

It sends the requests that this server makes itself, with whole bodies, and as Go's client it asks for compressed answers, which
treq decodes.  Proxied requests go to the pool directly.  Redirects are not followed, and cookies are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from hyperlink import EncodedURL
from treq.client import HTTPClient
from treq.cookies import IndexableCookieJar
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer, IResponse
from zope.interface import classImplements, implementer

from kapi.wire.answer import Answer
from kapi.wire.head import Header, header_line, request_head
from kapi.wire.pool import Pool

classImplements(Answer, IResponse)  # here, since twisted.web.iweb imports what a client command does without


@implementer(IBodyProducer)
class Body:
    """The bytes of a request."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        consumer.write(self.data)
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def pauseProducing(self) -> None:
        pass

    def resumeProducing(self) -> None:
        pass

    def stopProducing(self) -> None:
        pass


class prepared_url(EncodedURL):  # noqa: N801 - used like a function
    """A URL that keeps its text: treq would parse and format it for every request."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        parsed = EncodedURL.from_text(text).to_uri()
        super().__init__(
            parsed.scheme, parsed.host, parsed.path, parsed.query, parsed.fragment, parsed.port,
            parsed.rooted, parsed.userinfo, parsed.uses_netloc,
        )  # fmt: skip
        self._text = parsed.to_text()

    def to_uri(self) -> prepared_url:
        return self

    def to_text(self, with_password: bool = False) -> str:
        return self._text


class _NoCookies(IndexableCookieJar):
    """A jar that stays empty."""

    def add_cookie_header(self, request: object) -> None:
        pass

    def extract_cookies(self, response: object, request: object) -> None:
        pass


_HEADS = 100  # cached heads of one agent
_EMPTY = _NoCookies()  # treq would make a jar for every request


@implementer(IAgent)
class Agent:
    """Requests to the server of one pool, whatever host the URIs name.  ``headers`` are sent with every request."""

    def __init__(self, pool: Pool, headers: Sequence[Header] = ()) -> None:
        self.pool = pool
        self._head = lru_cache(_HEADS)(partial(_first_lines, headers))
        self._http = HTTPClient(self, _NoCookies(), Body)

    def request(
        self, method: bytes, uri: bytes, headers: Headers | None = None, bodyProducer: IBodyProducer | None = None
    ) -> Deferred[IResponse]:
        """Fires with an Answer.  ``bodyProducer`` is a Body.  Fails as ``Pool.send``."""
        head = self._head(method, uri)
        if headers is not None:
            head += b"".join(
                header_line(name, value) + b"\r\n" for name, values in headers.getAllRawHeaders() for value in values
            )
        data = None if bodyProducer is None else bodyProducer.data  # type: ignore[attr-defined]
        sent: Deferred[IResponse] = self.pool.send_head(method, head, data)  # type: ignore[assignment]
        return sent

    def ask(
        self,
        method: str,
        url: str | EncodedURL,
        body: bytes | None = None,
        headers: Headers | Mapping[bytes, list[bytes]] | None = None,
    ) -> Deferred[IResponse]:
        """A request by treq; the answer's body is still to be read.  Fails as ``Pool.send``."""
        made = headers if headers is None or isinstance(headers, Headers) else Headers(headers)
        sent: Deferred[IResponse] = self._http.request(
            method, url, data=body, headers=made, cookies=_EMPTY, allow_redirects=False, unbuffered=True
        )  # type: ignore[assignment]
        return sent


def _first_lines(headers: Sequence[Header], method: bytes, uri: bytes) -> bytes:
    """The request line, Host and ``headers``.  Raises BadHead."""
    host, slash, path = uri.partition(b"://")[2].partition(b"/")
    if not slash:
        host, mark, path = host.partition(b"?")
        path = mark + path
    host = host.rpartition(b"@")[2].removesuffix(b":443")
    return request_head(method, b"/" + path, [(b"Host", host), *headers]).removesuffix(b"\r\n")
