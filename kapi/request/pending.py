"""Counts the bytes that wait for slow clients, and bounds their total (ADR 30).

A client may leave an answer unread, send a body slowly, or watch without reading.  Each such case has its own bound, but a
thousand clients together could still fill the memory.  So all waiting bytes are counted here.  Beyond the total bound the
connections that have been without progress for longest are closed.  While that is not enough, further requests that would add
bytes are answered 429.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from kapi.machinery import status

MAX_PENDING_BYTES = 256 * 1024 * 1024  # bytes
MIN_COUNTED_BYTES = 64 * 1024  # a smaller body is not counted
STALL_SECONDS = 2.0  # without progress for so long, a client may be cut off
RETRY_AFTER_SECONDS = 1  # asked of a refused client
REFUSAL = "too much is waiting for clients that are slow, please try again later"


class Holder(Protocol):
    """A request or watch with bytes that wait for its client."""

    def cut_off(self) -> None:
        """Closes its connection and frees the bytes."""


class PendingBytes:
    """A number of waiting bytes, counted as long as this object lives."""

    __slots__ = ("_pending", "size")

    def __init__(self, pending: Pending, size: int = 0) -> None:
        self._pending = pending
        self.size = 0
        self.set(size)

    def set(self, size: int) -> None:
        self._pending.size += size - self.size
        self.size = size

    def __del__(self) -> None:
        self._pending.size -= self.size


class Pending:
    """The waiting bytes of one server.  ``seconds`` is its clock; ``limit`` is in bytes, 0 means no limit."""

    def __init__(self, seconds: Callable[[], float], limit: int = MAX_PENDING_BYTES) -> None:
        self.size = 0  # bytes
        self.cut_off = 0  # clients so far
        self.refused = 0  # requests so far
        self.limit: float = limit or math.inf
        self._seconds = seconds
        self._holders: dict[Holder, float] = {}  # by the time of their last progress, the oldest first

    @property
    def full(self) -> bool:
        return self.size > self.limit

    def refusal(self) -> status.TooManyRequests:
        """The error for a request that would add bytes."""
        self.refused += 1
        return status.too_many_requests(REFUSAL, RETRY_AFTER_SECONDS)

    def progress(self, holder: Holder) -> None:
        """Notes progress of a client, or its first bytes; the size may have grown."""
        self._holders.pop(holder, None)
        self._holders[holder] = self._seconds()
        if self.size > self.limit:
            self.shrink()

    def wait(self, holder: Holder) -> None:
        """Notes that more bytes wait for a client without progress."""
        self._holders.setdefault(holder, self._seconds())
        if self.size > self.limit:
            self.shrink()

    def leave(self, holder: Holder) -> None:
        """Forgets a client without waiting bytes."""
        self._holders.pop(holder, None)

    def shrink(self) -> None:
        """Cuts off stalled clients until the size is within the limit."""
        late = self._seconds() - STALL_SECONDS
        while self.size > self.limit and self._holders:
            holder, since = next(iter(self._holders.items()))
            if since > late:
                return
            self.leave(holder)
            self.cut_off += 1
            holder.cut_off()
