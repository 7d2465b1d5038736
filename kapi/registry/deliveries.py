"""Events of a watch inside the process on their way to its handler.

An object of 3 MB takes 30 ms to decode, before and after a change twice that, and a handler may walk all of it.  So it is
decoded and handled in slices, one such event a turn of the reactor; those that come meanwhile wait, so that the handler gets all
in order, and when there are many the watch is held back.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.client.interface import EventHandler
from kapi.machinery.tree import Object
from kapi.watchcache.cache import Batch, Cache, WatchEvent

log = Logger()
_MAX_WAITING = 1000  # events, and a batch
#: an event, and the objects of it that are decoded: they may be let go by the time it is handled
_Waiting = tuple[WatchEvent, "Object | None", "Object | None"]


class Source(Protocol):
    """Where batches come from."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Deliveries:
    """``take`` is what the watch calls; ``stop`` is the last call."""

    def __init__(self, cache: Cache, handler: EventHandler) -> None:
        self._cache = cache
        self._handler = handler
        self._waiting: deque[_Waiting] = deque()  # while one is handled in slices it is the first
        self._handling = False
        self._paused = False
        self._stopped = False
        #: is held back while too much waits
        self.source: Source | None = None

    def take(self, batch: Batch) -> None:
        for event in batch.events:
            entry, previous = event.entry, event.previous
            if entry is None or self._stopped:
                continue
            if self._waiting or _is_large(event):
                self._waiting.append((event, entry.decoded, None if previous is None else previous.decoded))
                self._cache.undecoded += 1
                if len(self._waiting) == 1:
                    self._begin()
            else:
                self._hand_over(event)
        if len(self._waiting) >= _MAX_WAITING and not self._paused and self.source is not None:
            self._paused = True
            self.source.pause()

    def stop(self) -> None:
        """Nothing is handed over any more."""
        self._stopped = True
        self._cache.undecoded -= len(self._waiting)
        self._waiting.clear()

    def _next(self) -> _Waiting:
        self._cache.undecoded -= 1
        return self._waiting.popleft()

    def _begin(self) -> None:
        """What is the first to wait, in slices."""
        if self._waiting and not self._handling:
            self._handling = True
            self._cache.call(self._hand_over, *self._waiting[0]).addBoth(self._go_on)

    def _go_on(self, result: object) -> None:
        """It was handled."""
        self._handling = False
        waiting = self._waiting
        if isinstance(result, Failure):
            log.failure("an event was not handled", result)
        if waiting:
            self._next()
        while waiting and not _is_large(waiting[0][0]):
            self._hand_over(*self._next())
        if waiting:
            self._cache.later(self._begin)
        if self._paused and len(waiting) <= _MAX_WAITING // 2 and not self._stopped and self.source is not None:
            self._paused = False
            self.source.resume()

    def _hand_over(self, event: WatchEvent, obj: Object | None = None, old: Object | None = None) -> None:
        entry, previous = event.entry, event.previous
        assert entry is not None
        try:
            if obj is None:
                obj = entry.object
            if old is None and previous is not None:
                old = previous.object
            if not self._stopped:
                self._handler(event.type, obj, old)
        except Exception:  # this event's alone: the handler gets the next one
            log.failure("an event of {key} was not handled", key=entry.key)


def _is_large(event: WatchEvent) -> bool:
    entry, previous = event.entry, event.previous
    return (entry is not None and entry.is_large) or (previous is not None and previous.is_large)
