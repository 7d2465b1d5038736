"""Adapts requests of any twisted.web Site to the runner.

The Site has read the whole request, over whatever transport it serves.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IPullProducer, IPushProducer
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from kapi.request.http import HTTPRequest, Waiting
from kapi.request.target import origin_form
from kapi.server.request import MAX_BODY, set_headers, write_plainly


class SiteResource(Resource):
    """A resource that passes each request to ``answer``."""

    isLeaf = True

    def __init__(self, answer: Callable[[HTTPRequest], object]) -> None:
        super().__init__()
        self._answer = answer

    def render(self, request: Any) -> int:
        try:
            http = SiteRequest(request)
        except ValueError:
            request.setResponseCode(400)
            request.finish()
        else:
            self._answer(http)
        return NOT_DONE_YET


class SiteRequest:
    """An HTTPRequest over a request of a Site.  Raises ValueError for an invalid request target."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._producer: IPushProducer | IPullProducer | None = None
        self.gone = False  # the client has left
        self.waiting: Waiting | None = None  # an answer that has not come yet: notified when the client leaves
        self.method: bytes = request.method
        self.uri = _below(request)
        self.clientproto: bytes = request.clientproto
        self.transport = request.transport
        self.requestHeaders: Headers = request.requestHeaders
        self.responseHeaders: Headers = request.responseHeaders
        size = request.content.seek(0, io.SEEK_END)
        self.body_too_large = size > MAX_BODY
        request.content.seek(0)
        self.content = io.BytesIO(b"" if self.body_too_large else request.content.read())
        # headers of the Site that kapi sets itself
        for name in (b"content-type", b"server"):
            self.responseHeaders.removeHeader(name)
        request.notifyFinish().addErrback(self._client_gone)

    def _client_gone(self, _: Failure) -> None:
        self.gone = True
        producer, self._producer = self._producer, None
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.client_gone()
        if producer is not None:
            producer.stopProducing()  # over HTTP/2 Twisted does not do it

    @property
    def sentLength(self) -> int:
        """Bytes of the answer's body."""
        return int(self._request.sentLength)

    @property
    def finished(self) -> bool:
        return bool(self._request.finished)

    def getHeader(self, name: str) -> str | None:
        values: list[str] | None = self._request.requestHeaders.getRawHeaders(name)
        return values[0] if values else None

    def getClientAddress(self) -> IAddress:
        address: IAddress = self._request.getClientAddress()
        return address

    def notifyFinish(self) -> Deferred[None]:
        finish: Deferred[None] = self._request.notifyFinish()
        return finish

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        self._request.setResponseCode(code, message)

    def write(self, data: bytes) -> None:
        if not self.gone:
            self._request.write(data)

    def begin(self, fields: Sequence[tuple[bytes, bytes]], size: int) -> None:
        """Sets the headers of an answer with a body of so many bytes."""
        set_headers(self, fields, size)

    def write_whole(self, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Sends a complete answer with these headers."""
        write_plainly(self, fields, body)

    def finish(self) -> None:
        if not self.gone:
            self._request.finish()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        if self.gone:
            producer.stopProducing()
            return
        self._producer = producer
        self._request.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        self._producer = None
        if not self.gone:
            self._request.unregisterProducer()

    def shrink(self) -> None:
        """Frees the body once a long answer has begun."""
        self.content = io.BytesIO()

    def abort(self) -> None:
        """Ends an answer in the middle, so that the client does not take it for complete."""
        if not self.gone:
            channel = self._request.channel
            (getattr(channel, "abortConnection", None) or channel.transport.abortConnection)()


def _below(request: Any) -> bytes:
    """Path and query relative to the mount point of the resource.  Raises ValueError."""
    found = origin_form(request.method, request.uri)
    if found is None:
        raise ValueError("the request target is none")
    path, mark, query = found[0].partition(b"?")
    mounted = len(request.prepath)  # segments of the path that led here
    below = path.split(b"/", mounted + 1)[mounted + 1 :] if mounted else [path[1:]]
    return b"/" + b"".join(below) + mark + query
