"""The interface of a transport: it sends requests and gives answers, whole or as a stream.

``kapi.client.connections`` implements it over sockets, ``kapi.testing.client`` over a server in memory.
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
    """The body of an answer, piece by piece.  Only one reader at a time.

    ``flow(True)`` pauses the sender, ``flow(False)`` resumes it; ``abort`` ends the connection.
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
        """Called by the transport with a piece of the body."""
        if self._ended:
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > MAX_BUFFERED and not self._paused:
            self._paused = True
            self._flow(True)
        self._wake()

    def finish(self, why: Failure | None = None) -> None:
        """Called by the transport at the end of the body; ``why`` says why it is not complete."""
        if not self._ended:
            self._ended, self._end = True, why
            self._wake()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.callback(None)

    async def read(self) -> bytes:
        """Waits for data.  Returns all data so far, b"" at the end.  Raises the connection's error, or StreamClosed."""
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
    """An answer.  ``stream`` is set when one was requested and the code is below 300; otherwise ``body`` is complete."""

    __slots__ = ("body", "code", "headers", "stream")

    def __init__(self, code: int, headers: Headers, body: bytes = b"", stream: Stream | None = None) -> None:
        self.code, self.headers, self.body, self.stream = code, headers, body, stream

    def header(self, name: bytes) -> str:
        """The first header of that name, "" when there is none."""
        values = self.headers.getRawHeaders(name)
        return values[0].decode("utf-8", "replace") if values else ""


class Transport(Protocol):
    """Sends requests and gives answers; a test may have one of its own."""

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        """``target`` is path and query, escaped.  Fails with the error of the connection; cancelling ends the connection."""

    def close(self) -> Deferred[None]:
        """Closes idle connections at once and busy ones after their answer; fires when none is open."""
