"""A request's body that is forwarded while it arrives (upstream: ``net/http``'s request body, read by ``httputil.ReverseProxy``).

Bytes that the reader has not taken yet wait here.  Meanwhile the source is paused: it stops reading from the client (HTTP/1.1) or
does not extend the stream's window (HTTP/2).  So only bytes that were already on their way are added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from twisted.python.failure import Failure


class Source(Protocol):
    """The source of the body."""

    def body_waits(self, size: int) -> None:
        """Called with the number of bytes that have arrived and were not taken."""

    def body_taken(self, size: int) -> None:
        """Called with the number of bytes that the reader has taken."""


class StreamedBody:
    """``length`` is in bytes, None when unknown; ``start`` is the part that has arrived already."""

    __slots__ = (
        "_ended",
        "_failure",
        "_over",
        "_paused",
        "_size",
        "_source",
        "_waiting",
        "_write",
        "complete",
        "length",
    )

    def __init__(self, source: Source, length: int | None, start: bytes) -> None:
        self._source = source
        self.length = length
        self.complete = False  # the whole body has arrived
        self._waiting: deque[bytes] = deque([start] if start else ())
        self._size = len(start)
        self._write: Callable[[bytes], None] | None = None
        self._ended: Callable[[Failure | None], None] | None = None
        self._failure: Failure | None = None
        self._paused = False
        self._over = False  # the reader has stopped, or was notified of the end
        source.body_waits(self._size)

    # -- the client's side

    def received(self, data: bytes) -> None:
        """Takes more bytes from the source."""
        if self._over or self._failure is not None:
            self._source.body_taken(len(data))
        elif self._write is None or self._paused or self._waiting:
            self._waiting.append(data)
            self._size += len(data)
            self._source.body_waits(self._size)
        else:
            self._source.body_taken(len(data))
            self._write(data)

    def end(self) -> None:
        """Called when the whole body has arrived."""
        self.complete = True
        self._check()

    def fail(self, why: Failure) -> None:
        """Called when the rest of the body will not arrive, or is not needed."""
        if not self._over and self._failure is None:
            self._failure = why
            self._drop()
            self._check()

    # -- the reader's side

    def read(self, write: Callable[[bytes], None], ended: Callable[[Failure | None], None]) -> None:
        """Gives the body to ``write`` piece by piece, then calls ``ended`` with the error or None."""
        self._write, self._ended = write, ended
        self.resume()

    def pause(self) -> None:
        """Pauses the reader."""
        self._paused = True

    def resume(self) -> None:
        """Resumes the reader."""
        self._paused = False
        write, waiting = self._write, self._waiting
        if write is None or self._over:
            return
        while waiting and not self._paused:
            data = waiting.popleft()
            self._size -= len(data)
            self._source.body_taken(len(data))
            write(data)
        if not self._over:
            self._source.body_waits(self._size)
            self._check()

    def stop(self) -> None:
        """Stops the reader; further bytes are dropped."""
        self._ended = None
        if not self._over:
            self._over = True
            self._drop()

    def _check(self) -> None:
        """Notifies the reader once the body has ended."""
        ended = self._ended
        if ended is not None and (self._failure is not None or (self.complete and not self._waiting)):
            self._ended = None
            self._over = True
            ended(self._failure)

    def _drop(self) -> None:
        size, self._size = self._size, 0
        self._waiting.clear()
        self._source.body_taken(size)
        self._source.body_waits(0)
