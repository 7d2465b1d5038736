"""The revisions and sizes of the changes of all resources of a store, so that age and size bound them together."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable

import msgspec

from kapi.watchcache.cache import Cache
from kapi.watchcache.event import CacheEvent

HISTORY_SECONDS = 300.0
HISTORY_BYTES = 128_000_000
_EVENT_OVERHEAD_BYTES = 500  # memory of an event in addition to its data


class LoggedEvent(msgspec.Struct, eq=False, gc=False):
    """An event and the cache it belongs to; not tracked by the garbage collector."""

    cache: Cache
    event: CacheEvent


def _size_of(event: CacheEvent) -> int:
    return len(event.entry.data) + _EVENT_OVERHEAD_BYTES


class EventLog:
    """``age`` (seconds) and ``limit`` (bytes) bound the history of all caches.

    Sizes are those of the events as they arrived, even when a cache has compressed them since.
    """

    def __init__(self, age: float, limit: int) -> None:
        self._age = age
        self._limit = limit
        self._revisions = array("Q")  # revisions of the events in the caches' histories
        self._sizes = array("Q")  # bytes of these events
        self._size = 0
        self._times: deque[tuple[float, int]] = deque()  # a time, and the newest revision then

    def __len__(self) -> int:
        return len(self._revisions)

    def take(self, events: Iterable[CacheEvent], now: float, revision: int) -> None:
        """Replaces all events."""
        self._revisions, self._sizes, self._size = array("Q"), array("Q"), 0
        for event in events:
            self.add(event)
        self._times.clear()
        self._times.append((now, revision))

    def add(self, event: CacheEvent) -> None:
        size = _size_of(event)
        self._revisions.append(event.revision)
        self._sizes.append(size)
        self._size += size

    def trim(self, now: float, revision: int, floor: int) -> tuple[int, int]:
        """Drops the events beyond the limits.

        Returns the revision up to which clients cannot request changes any more, and the one up to which the caches must drop
        their events (0: none).  ``revision`` is the newest one, ``floor`` the present value of the former.
        """
        self._times.append((now, revision))
        until = floor
        while len(self._times) > 1 and self._times[0][0] <= now - self._age:
            until = self._times.popleft()[1]
        revisions, sizes = self._revisions, self._sizes
        last = len(revisions) - 1  # the last event always stays
        gone = min(bisect_right(revisions, until), max(0, last))
        self._size -= sum(sizes[:gone])
        while gone < last and self._size > self._limit:
            self._size -= sizes[gone]
            gone += 1
        if not gone:
            return min(until, revision), 0
        dropped = revisions[gone - 1]
        del revisions[:gone], sizes[:gone]
        return min(max(until, dropped), revision), dropped
