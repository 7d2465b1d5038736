"""The queue between an in-process watch and its event handler (upstream: client-go's ``processorListener``).

An object of 3 MB takes 30 ms to decode, and a changed one twice that; a handler may walk all of it.  So an event with a large
object is decoded and handled in slices, one such event in a turn of the reactor.  Later events wait, so that the handler gets
all of them in order; when many wait, the watch is paused.
"""

from __future__ import annotations

from typing import Protocol

from twisted.logger import Logger

from kapi.machinery.tree import Object
from kapi.process.in_order import InOrder
from kapi.runtime.interface import EventHandler
from kapi.watchcache.cache import Batch, Cache, WatchEvent
from kapi.watchcache.unreadable import Unreadable

log = Logger()
_MAX_WAITING_EVENTS = 1000  # then the watch pauses; the batch that it delivers is still added


class Source(Protocol):
    """The source of batches."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Deliveries:
    """``take`` receives the batches of a watch; nothing is delivered after ``stop``."""

    def __init__(self, cache: Cache, handler: EventHandler) -> None:
        self._cache = cache
        self._handler = handler
        self._order = InOrder(cache.call, cache.later)
        self._paused = False
        self._stopped = False
        #: paused while too many events wait
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
                # entries may drop their trees before the event is handled
                trees = entry.decoded, None if previous is None else previous.decoded
                order.add(self._handle, event, *trees, long=long)
            else:
                self._deliver(event)
        if len(order) >= _MAX_WAITING_EVENTS and not self._paused and self.source is not None:
            self._paused = True
            self.source.pause()

    def stop(self) -> None:
        """Discards waiting events; the handler is not called any more."""
        self._stopped = True
        self._cache.undecoded -= self._order.clear()

    def _handle(self, event: WatchEvent, obj: Object | None, old: Object | None) -> None:
        """Delivers the first waiting event."""
        self._deliver(event, obj, old)
        self._cache.undecoded -= 1
        if self._paused and len(self._order) <= _MAX_WAITING_EVENTS // 2:
            self._paused = False
            self._cache.later(self._resume)

    def _resume(self) -> None:
        if self.source is not None and not self._stopped:
            self.source.resume()

    def _deliver(self, event: WatchEvent, obj: Object | None = None, old: Object | None = None) -> None:
        entry, previous = event.entry, event.previous
        assert entry is not None
        try:
            if obj is None:
                obj = entry.object
            if old is None and previous is not None:
                old = previous.object
            if not self._stopped:
                self._handler(event.type, obj, old)
        except Unreadable:
            pass  # the cache has logged its name
        except Exception:  # a fault in one event must not end the watch
            try:
                entry.check()
            except Unreadable:
                return
            log.failure("an event of {key} was not handled", key=entry.key)


def _is_large(event: WatchEvent) -> bool:
    entry, previous = event.entry, event.previous
    return (entry is not None and entry.is_large) or (previous is not None and previous.is_large)
