"""What the client library asks of a transport: requests out, answers back, whole or as a stream.

``kapi.client.connections`` is the one over sockets, ``kapi.testing.client`` the one over a server in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

MAX_BUFFERED = 1024 * 1024  # bytes of a stream that wait for their reader before the sender is made to wait
Header = tuple[bytes, bytes]


class StreamClosed(Exception):
    """The stream was closed at this end."""


class Stream:
    """The body of an answer that goes on.  One reader at a time.

    ``flow(True)`` asks the sender to wait, ``flow(False)`` to go on; ``abort`` ends the connection.
    """

    def __init__(self, flow: Callable[[bool], None], abort: Callable[[], None]) -> None:
        self._flow, self._abort = flow, abort
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._reader: Deferred[None] | None = None
        self._end: Failure | None = None
        self._ended = False

    def feed(self, data: bytes) -> None:
        """From the transport."""
        if self._ended:
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > MAX_BUFFERED and not self._paused:
            self._paused = True
            self._flow(True)
        self._wake()

    def finish(self, why: Failure | None = None) -> None:
        """From the transport: the body's end, or why there is no end."""
        if not self._ended:
            self._ended, self._end = True, why
            self._wake()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.callback(None)

    async def read(self) -> bytes:
        """What has come, at least a byte; b"" at the end.  Raises what ended the connection, and StreamClosed."""
        while not self._chunks:
            if self._ended:
                if self._end is not None:
                    self._end.raiseException()
                return b""
            assert self._reader is None, "one reader at a time"
            self._reader = Deferred(self._forget)
            await self._reader
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            if not self._ended:
                self._flow(False)
        return data

    def _forget(self, reader: Deferred[None]) -> None:
        self._reader = None

    def close(self) -> None:
        """Ends the connection; a reader gets StreamClosed."""
        if self._ended:
            return
        self._chunks.clear()
        self._abort()
        self.finish(Failure(StreamClosed()))


class Response:
    """An answer; ``stream`` is there when one was asked for and the code is below 300, else ``body`` is whole."""

    __slots__ = ("body", "code", "headers", "stream")

    def __init__(self, code: int, headers: Headers, body: bytes = b"", stream: Stream | None = None) -> None:
        self.code, self.headers, self.body, self.stream = code, headers, body, stream

    def header(self, name: bytes) -> str:
        """The first of that name, "" when there is none."""
        values = self.headers.getRawHeaders(name)
        return values[0].decode("utf-8", "replace") if values else ""


class Transport(Protocol):
    """Requests out, answers back; a test may bring its own."""

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        """``target`` is path and query, escaped.  Fails with what the connection failed with; cancelling ends it."""
        ...

    def close(self) -> Deferred[None]:
        """Ends what is idle, later what is busy; fires when nothing is open."""
        ...
