"""What clients have sent and not finished, or not taken yet: a bound for all of them together.

A client may let an answer lie, send a body slowly, or watch without reading; each of that is bounded by itself, and a
thousand clients could still fill the memory.  What waits is counted here.  Beyond the bound those are
cut off who have not taken or sent anything for longest; as long as that does not suffice, what would make it worse is refused
(429); see ADR 30.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from kapi.machinery import status

MAX_PENDING = 256 * 1024 * 1024  # bytes
COUNTED = 64 * 1024  # bytes of a body from which it counts
STALL_SECONDS = 2.0  # seconds without progress after which a client may be cut off
RETRY = 1  # seconds that a refused client is asked to wait
REFUSAL = "too much is waiting for clients that are slow, please try again later"


class Holder(Protocol):
    """For whose client something waits."""

    def cut_off(self) -> None:
        """Ends it, and lets everything go."""


class Share:
    """Bytes that wait; they count as long as this object lives."""

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
    """Of one server.  ``seconds`` is its clock; ``limit`` is bytes, 0 for none."""

    def __init__(self, seconds: Callable[[], float], limit: int = MAX_PENDING) -> None:
        self.size = 0  # bytes
        self.cut_off = 0  # clients so far
        self.refused = 0  # requests so far
        self.limit: float = limit or math.inf
        self._seconds = seconds
        self._holders: dict[Holder, float] = {}  # since when there was no progress: the longest is first

    @property
    def full(self) -> bool:
        return self.size > self.limit

    def refusal(self) -> status.TooManyRequests:
        """The answer to what would make it worse."""
        self.refused += 1
        return status.too_many_requests(REFUSAL, RETRY)

    def progress(self, holder: Holder) -> None:
        """Its client has taken or sent something, or begins; more may wait for it now."""
        self._holders.pop(holder, None)
        self._holders[holder] = self._seconds()
        if self.size > self.limit:
            self.shrink()

    def wait(self, holder: Holder) -> None:
        """More bytes wait for a client that has not taken any."""
        self._holders.setdefault(holder, self._seconds())
        if self.size > self.limit:
            self.shrink()

    def leave(self, holder: Holder) -> None:
        """Nothing waits for it any more."""
        self._holders.pop(holder, None)

    def shrink(self) -> None:
        """Makes space, as far as there is any to make."""
        late = self._seconds() - STALL_SECONDS
        while self.size > self.limit and self._holders:
            holder, since = next(iter(self._holders.items()))
            if since > late:
                return
            self.leave(holder)
            self.cut_off += 1
            holder.cut_off()
