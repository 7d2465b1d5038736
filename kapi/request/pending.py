"""Counts the bytes that wait for slow clients, and limits their total (ADR 30).

A client may leave an answer unread, send a body slowly, or watch without reading.  Each such case has its own limit, but a
thousand clients together could still fill the memory.  So all waiting bytes are counted here, wherever they wait: in a
connection, a stream of HTTP/2, the queue of a watch, an answer that is sent in parts, or a body.  Bytes that wait for several
clients are one object in memory, and count once.

Beyond the total limit the connections that have been without progress for longest are closed.  While that is not enough, further
requests that would add bytes are answered 429.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Protocol

from kapi.machinery import status

MAX_PENDING_BYTES = 256 * 1024 * 1024  # bytes
#: the part of the operator's limit that is used: the rest is for uncounted memory, such as connections and objects in use
COUNTED_SHARE = 7 / 8
MIN_COUNTED_BYTES = 64 * 1024  # a smaller body is not counted
#: a paused answer of another server: a stream's window, or undecrypted bytes and a connection
BACKEND_BYTES = 256 * 1024
_MIN_SHARED_BYTES = 4 * 1024  # a smaller object counts for each client
STALL_SECONDS = 2.0  # a client without progress for this time may be cut off; the time is shorter far beyond the limit
_MAX_EXCESS = 2.0  # times the limit, at which the client without progress for longest is cut off at once
RETRY_AFTER_SECONDS = 1  # Retry-After of a refused request
REFUSAL = "too much is waiting for clients that are slow, please try again later"


class Holder(Protocol):
    """A request or watch with bytes that wait for its client."""

    def cut_off(self) -> None:
        """Closes its connection and frees the bytes."""


class Keeper(Holder, Protocol):
    """An answer of a slow client, which keeps objects in memory that were changed or deleted meanwhile."""

    def stalled(self) -> None:
        """Counts the objects that it keeps, when its client has been without progress for some time."""


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


class HeldBytes:
    """Waiting objects, counted as long as this object lives."""

    __slots__ = ("_held", "_pending")

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self._held: dict[int, bytes] = {}  # by id

    def add(self, objects: Iterable[bytes]) -> None:
        """Counts further objects, each only once."""
        held = self._held
        for data in objects:
            if id(data) not in held:
                held[id(data)] = data
                self._pending.hold(data)

    def __del__(self) -> None:
        for data in self._held.values():
            self._pending.release(data)


class Pending:
    """The waiting bytes of one server.  ``seconds`` is its clock; ``limit`` is in bytes, 0 means no limit."""

    def __init__(self, seconds: Callable[[], float], limit: int = MAX_PENDING_BYTES) -> None:
        self.size = 0  # bytes
        self.cut_off = 0  # clients so far
        self.refused = 0  # requests so far
        self.limit: float = limit or math.inf
        self._seconds = seconds
        self._holders: dict[Holder, float] = {}  # by the time of their last progress, the oldest first
        self._keepers: dict[Keeper, None] = {}  # answers that have not counted their objects yet
        self._places: dict[int, int] = {}  # the number of places in which a large object waits, by its id

    @property
    def full(self) -> bool:
        return self.size > self.limit

    def refusal(self) -> status.TooManyRequests:
        """The error for a request that would add bytes."""
        self.refused += 1
        return status.too_many_requests(REFUSAL, RETRY_AFTER_SECONDS)

    def hold(self, data: bytes) -> None:
        """Counts an object that waits, unless it waits elsewhere already.  The caller keeps it until ``release``."""
        size = len(data)
        if size >= _MIN_SHARED_BYTES:
            places = self._places.get(id(data), 0)
            self._places[id(data)] = places + 1
            if places:
                return
        self.size += size

    def release(self, data: bytes) -> None:
        """Records that the object waits in one place less."""
        size = len(data)
        if size >= _MIN_SHARED_BYTES:
            places = self._places[id(data)] - 1
            if places:
                self._places[id(data)] = places
                return
            del self._places[id(data)]
        self.size -= size

    def keep(self, keeper: Keeper) -> None:
        """Registers an answer whose ``stalled`` is called when its client is slow."""
        self._keepers[keeper] = None
        self.progress(keeper)

    def look(self) -> None:
        """Called about every second: notices clients without progress, since these call nothing."""
        late = self._seconds() - STALL_SECONDS
        for keeper in [each for each in self._keepers if self._holders.get(each, late) <= late]:
            del self._keepers[keeper]
            keeper.stalled()
        if self.size > self.limit:
            self.shrink()

    def progress(self, holder: Holder) -> None:
        """Records progress of a client, or its first bytes; the size may have grown."""
        self._holders.pop(holder, None)
        self._holders[holder] = self._seconds()
        if self.size > self.limit:
            self.shrink(holder)

    def wait(self, holder: Holder) -> None:
        """Records that more bytes wait for a client without progress."""
        self._holders.setdefault(holder, self._seconds())
        if self.size > self.limit:
            self.shrink(holder)

    def leave(self, holder: Holder) -> None:
        """Forgets a client without waiting bytes."""
        self._holders.pop(holder, None)
        self._keepers.pop(holder, None)  # type: ignore[call-overload]

    def shrink(self, caller: Holder | None = None) -> None:
        """Cuts off stalled clients until the size is within the limit, except the client whose work calls this method."""
        now = self._seconds()
        while self.size > self.limit:
            holder = next((each for each in self._holders if each is not caller), None)
            patience = STALL_SECONDS * (_MAX_EXCESS - self.size / self.limit) / (_MAX_EXCESS - 1)
            if holder is None or now - self._holders[holder] < patience:
                return
            self.leave(holder)
            self.cut_off += 1
            holder.cut_off()
