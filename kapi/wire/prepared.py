"""Objects that treq would make for every request, made once: body, URL, and a jar without cookies."""

from __future__ import annotations

from hyperlink import EncodedURL
from treq.cookies import IndexableCookieJar
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer


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
    def add_cookie_header(self, request: object) -> None:
        pass

    def extract_cookies(self, response: object, request: object) -> None:
        pass


def no_cookies() -> IndexableCookieJar:
    """A jar that stays empty."""
    return _NoCookies()
