"""Events of a watch inside the process on their way to its handler.

An object of 3 MB takes 30 ms to decode, before and after a change twice that.  So it is decoded in slices first, one such event
a turn of the reactor; those that come meanwhile wait, so that the handler gets all in order.
"""

from __future__ import annotations

from collections import deque

from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.client.interface import EventHandler
from kapi.machinery.checkpoint import engage
from kapi.machinery.tree import Object
from kapi.watchcache.cache import Batch, Cache, WatchEvent

log = Logger()
_MAX_WAITING = 1000  # events; of more, large ones are decoded at once
#: an event, and the objects of it that are decoded: they may be let go by the time it is handled
_Waiting = tuple[WatchEvent, "Object | None", "Object | None"]


class Deliveries:
    """``take`` is what the watch calls; ``stop`` is the last call."""

    def __init__(self, cache: Cache, handler: EventHandler) -> None:
        self._cache = cache
        self._handler = handler
        self._waiting: deque[_Waiting] = deque()  # the first is being decoded
        self._decoding = False
        self._stopped = False

    def take(self, batch: Batch) -> None:
        for event in batch.events:
            entry, previous = event.entry, event.previous
            if entry is None:
                continue
            late = entry.takes_long or (previous is not None and previous.takes_long)
            if self._waiting or (late and not self._stopped):
                self._waiting.append((event, entry.decoded, None if previous is None else previous.decoded))
                self._cache.undecoded += 1
                if len(self._waiting) == 1:
                    self._begin()
                elif len(self._waiting) > _MAX_WAITING:
                    self._hand_over(*self._next())
            else:
                self._hand_over(event)

    def stop(self) -> None:
        """Nothing is handed over any more."""
        self._stopped = True
        self._cache.undecoded -= len(self._waiting)
        self._waiting.clear()

    def _next(self) -> _Waiting:
        self._cache.undecoded -= 1
        return self._waiting.popleft()

    def _begin(self) -> None:
        """Decodes what is the first to wait."""
        if self._waiting and not self._decoding:
            self._decoding = True
            self._cache.call(_decoded, *self._waiting[0]).addBoth(self._go_on)

    def _go_on(self, result: _Waiting | Failure) -> None:
        """It is decoded, or was found to be unreadable."""
        self._decoding = False
        waiting = self._waiting
        if isinstance(result, Failure):
            if waiting:
                log.failure("an event of {key} was not handled", result, key=_key(*self._next()))
        elif waiting and waiting[0][0] is result[0]:  # else too many waited, and it was handed over
            self._next()
            self._hand_over(*result)
        while waiting and not _takes_long(*waiting[0]):
            self._hand_over(*self._next())
        if waiting:
            self._cache.later(self._begin)

    def _hand_over(self, event: WatchEvent, obj: Object | None = None, old: Object | None = None) -> None:
        entry, previous = event.entry, event.previous
        assert entry is not None
        try:
            if old is None and previous is not None:
                old = previous.object
            self._handler(event.type, entry.object if obj is None else obj, old)
        except Exception:  # this event's alone: the handler gets the next one
            log.failure("an event of {key} was not handled", key=entry.key)


def _key(event: WatchEvent, *_: object) -> str:
    return "" if event.entry is None else event.entry.key


def _takes_long(event: WatchEvent, obj: Object | None, old: Object | None) -> bool:
    entry, previous = event.entry, event.previous
    if obj is None and entry is not None and entry.takes_long:
        return True
    return old is None and previous is not None and previous.takes_long


def _decoded(event: WatchEvent, obj: Object | None, old: Object | None) -> _Waiting:
    """The same with its objects.  Raises Unreadable."""
    engage()
    entry, previous = event.entry, event.previous
    if obj is None and entry is not None:
        obj = entry.object
    if old is None and previous is not None:
        old = previous.object
    return event, obj, old
