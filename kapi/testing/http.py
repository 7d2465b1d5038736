"""An HTTP request in memory, with the part of twisted.web's Request that endpoints and filters use."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import cast

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from kapi.machinery.tree import Object, Tree
from kapi.request.http import HTTPRequest
from kapi.scheduling.deferred_answer import DeferredAnswer
from kapi.server.request import set_headers, write_plainly


class MemoryRequest:
    """Collects the answer: ``code``, ``responseHeaders`` and ``written``.  ``finished`` is set at its end."""

    clientproto = b"HTTP/1.1"

    def __init__(
        self, method: str, uri: str, headers: dict[str, str] | None = None, body: bytes = b"", transport: object = None
    ) -> None:
        self.method = method.encode()
        self.uri = uri.encode()
        self.requestHeaders = Headers()
        for name, value in (headers or {}).items():
            self.requestHeaders.setRawHeaders(name, [value])
        self.responseHeaders = Headers()
        self.content = io.BytesIO(body)
        self.transport = transport
        self.body_too_large = False
        self.code = 200
        self.chunks: list[bytes] = []
        self.finished = False
        self.gone = False
        self.waiting: DeferredAnswer | None = None
        self._producer: IPushProducer | None = None
        self._notifications: list[Deferred[None]] = []

    def getHeader(self, name: str) -> str | None:
        values = self.requestHeaders.getRawHeaders(name)
        return values[0] if values else None

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        self.code = code

    def write(self, data: bytes) -> None:
        self.chunks.append(data)

    def begin(self, fields: Sequence[tuple[bytes, bytes]], size: int) -> None:
        set_headers(cast(HTTPRequest, self), fields, size)

    def write_whole(self, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        write_plainly(cast(HTTPRequest, self), fields, body)

    def finish(self) -> None:
        self.finished = True
        waiting, self._notifications = self._notifications, []
        for notification in waiting:
            notification.callback(None)

    def notifyFinish(self) -> Deferred[None]:
        notification: Deferred[None] = Deferred()
        self._notifications.append(notification)
        return notification

    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None:
        self._producer = producer
        while not streaming and self._producer is not None:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:
        self._producer = None

    def abort(self) -> None:
        """Called by the server to end an incomplete answer."""
        self.disconnect()

    def disconnect(self) -> None:
        """Simulates that the client closes its connection."""
        self.gone = True
        self.content.close()
        if self._producer is not None:
            self._producer.stopProducing()
            self._producer = None
        if self.waiting is not None:
            self.waiting.client_gone()
        waiting, self._notifications = self._notifications, []
        for notification in waiting:
            notification.errback(Failure(ConnectionDone()))

    @property
    def written(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Tree:
        """The body as JSON."""
        return orjson.loads(self.written)

    @property
    def events(self) -> list[Object]:
        """The events of a watch so far."""
        return [orjson.loads(line) for line in self.written.splitlines()]

    def header(self, name: str) -> str:
        """A response header, "" when there is none."""
        values = self.responseHeaders.getRawHeaders(name)
        return values[0] if values else ""

    @property
    def warnings(self) -> list[str]:
        return list(self.responseHeaders.getRawHeaders("warning") or [])
