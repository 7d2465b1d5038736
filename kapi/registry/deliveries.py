"""Events of a watch inside the process on their way to its handler.

An object of 3 MB takes 30 ms to decode, before and after a change twice that, and a handler may walk all of it.  So it is
decoded and handled in slices, one such event a turn of the reactor; those that come meanwhile wait, so that the handler gets all
in order, and when there are many the watch is held back.
"""

from __future__ import annotations

from typing import Protocol

from twisted.logger import Logger

from kapi.client.in_order import InOrder
from kapi.client.interface import EventHandler
from kapi.machinery.tree import Object
from kapi.watchcache.cache import Batch, Cache, WatchEvent

log = Logger()
_MAX_WAITING = 1000  # events, and a batch


class Source(Protocol):
    """Where batches come from."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Deliveries:
    """``take`` is what the watch calls; ``stop`` is the last call."""

    def __init__(self, cache: Cache, handler: EventHandler) -> None:
        self._cache = cache
        self._handler = handler
        self._order = InOrder(cache.call, cache.later)
        self._paused = False
        self._stopped = False
        #: is held back while too much waits
        self.source: Source | None = None

    def take(self, batch: Batch) -> None:
        order = self._order
        for event in batch.events:
            entry, previous = event.entry, event.previous
            if entry is None or self._stopped:
                continue
            long = _is_large(event)
            if long or order:
                self._cache.undecoded += 1
                # their trees may be let go by the time the event is handled
                trees = entry.decoded, None if previous is None else previous.decoded
                order.add(self._handle, event, *trees, long=long)
            else:
                self._hand_over(event)
        if len(order) >= _MAX_WAITING and not self._paused and self.source is not None:
            self._paused = True
            self.source.pause()

    def stop(self) -> None:
        """Nothing is handed over any more."""
        self._stopped = True
        self._cache.undecoded -= self._order.clear()

    def _handle(self, event: WatchEvent, obj: Object | None, old: Object | None) -> None:
        """What has waited."""
        self._hand_over(event, obj, old)
        self._cache.undecoded -= 1
        if self._paused and len(self._order) <= _MAX_WAITING // 2:
            self._paused = False
            self._cache.later(self._resume)

    def _resume(self) -> None:
        if self.source is not None and not self._stopped:
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
