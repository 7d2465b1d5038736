"""The HTTP side of a listening port: requests without form parsing, bounded bodies and headers, HTTP/1.1 and HTTP/2."""

from __future__ import annotations

from typing import Any

from twisted.web import http

from kapi.server.runner import RequestRunner

MAX_BODY = 3 * 1024 * 1024  # bytes
MAX_HEADER_LINES = 500
IDLE_TIMEOUT = 90  # seconds in which a client must have sent its request


class Request(http.Request):
    """A request whose body is kept in memory up to a bound and handed to the runner whole."""

    _too_large = False

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        if length is not None and length > MAX_BODY:
            self._too_large = True
            length = 0
        super().gotLength(length)

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        if self._too_large:
            return
        if self.content.tell() + len(data) > MAX_BODY:
            self._too_large = True
            self.content.seek(0)
            self.content.truncate()
            return
        super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        """Unlike the base class: no query arguments, no cookies and no forms are parsed."""
        self.content.seek(0, 0)
        self.args = {}
        self.method, self.uri = command, path
        self.path = path.partition(b"?")[0]
        self.clientproto = version
        self.process()

    def process(self) -> None:
        self.channel.site.runner.serve(self)

    @property
    def body_too_large(self) -> bool:
        return self._too_large


class KapiChannel(http.HTTPChannel):
    """An HTTP/1.1 connection."""

    requestFactory = Request  # noqa: N815
    totalHeadersSize = 1024 * 1024  # noqa: N815
    maxHeaders = MAX_HEADER_LINES  # noqa: N815


class KapiSite(http.HTTPFactory):
    """Makes a channel per connection: HTTP/2 where the client's ALPN asked for it."""

    requestFactory = Request  # noqa: N815

    def __init__(self, runner: RequestRunner, reactor: Any, *, http2: bool = True) -> None:
        super().__init__(timeout=IDLE_TIMEOUT, reactor=reactor)
        self.runner = runner
        self.http2 = http2
        self.displayTracebacks = False  # noqa: N815

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802
        channel: Any = super().buildProtocol(addr)
        channel.requestFactory = Request
        channel.site = self
        return channel

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802
        """ALPN, best first."""
        return [b"h2", b"http/1.1"] if self.http2 else [b"http/1.1"]

    def log(self, request: Any) -> None:
        """Requests are logged by the filter chain."""
