"""The changes of all resources of a store in one order, so that age and size bound them together."""

from __future__ import annotations

from collections import deque

import msgspec

from kapi.watchcache.cache import Cache
from kapi.watchcache.event import CacheEvent

HISTORY_AGE = 300.0  # seconds
HISTORY_BYTES = 128_000_000
_EVENT_OVERHEAD_BYTES = 500  # bytes of an event besides its data


class Logged(msgspec.Struct, eq=False, gc=False):
    """Of which cache an event is; the garbage collector need not look at it."""

    cache: Cache
    event: CacheEvent


def _size_of(event: CacheEvent) -> int:
    return len(event.entry.data) + _EVENT_OVERHEAD_BYTES


class EventLog:
    """``age`` in seconds, ``limit`` in bytes."""

    def __init__(self, age: float, limit: int) -> None:
        self._age = age
        self._limit = limit
        self._events: deque[Logged] = deque()
        self._size = 0
        self._times: deque[tuple[float, int]] = deque()  # when a revision was the newest

    def take(self, events: deque[Logged], now: float, revision: int) -> None:
        """Replaces everything."""
        self._events = events
        self._size = sum([len(logged.event.entry.data) for logged in events]) + _EVENT_OVERHEAD_BYTES * len(events)
        self._times.clear()
        self._times.append((now, revision))

    def forget(self) -> None:
        """Nobody reads it any more; what leads to the caches past the garbage collector would keep them alive."""
        self._events = deque()
        self._size = 0

    def between(self, since: int, until: int) -> list[Logged]:
        """After ``since``, up to ``until``, oldest first."""
        return [logged for logged in self._events if since < logged.event.revision <= until]

    def add(self, cache: Cache, event: CacheEvent) -> None:
        self._events.append(Logged(cache, event))
        self._size += _size_of(event)

    def trim(self, now: float, revision: int, floor: int) -> int:
        """Lets go, here and in the caches, what is too old or too much; answers up to which revision that is.

        ``revision`` is the newest, ``floor`` what is gone already.
        """
        self._times.append((now, revision))
        until = floor
        while len(self._times) > 1 and self._times[0][0] <= now - self._age:
            until = self._times.popleft()[1]
        events = self._events
        while events and (events[0].event.revision <= until or self._size > self._limit) and len(events) > 1:
            oldest = events.popleft()
            self._size -= _size_of(oldest.event)
            oldest.cache.trim(oldest.event)
            until = max(until, oldest.event.revision)
        return min(until, revision)
