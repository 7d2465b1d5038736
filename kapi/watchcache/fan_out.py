"""Dispatches the events of a turn to the watches, over several turns of the reactor when there are many.

To send an object of 100 kB to a thousand watches means to encrypt 100 MB; other requests must be served meanwhile.  Upstream has
a goroutine for each watch.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.watchcache.event import Batch, CacheEvent
from kapi.watchcache.observers import Observers
from kapi.watchcache.selection import Group, Watcher

log = Logger()
_TURN_SECONDS = 0.01  # dispatching in one turn of the reactor
_SMALL_BYTES = 16 * 1024  # a batch below this size is small
_WATCHES_AT_ONCE = 16  # watches that get a small batch before the clock is read again
_MAX_HELD_EVENTS = 1000  # events that wait for the dispatch of earlier ones; with more, all are dispatched at once
_MAX_HELD_BYTES = 32 * 1024 * 1024  # total size of their objects


class FanOut:
    """Call ``schedule`` after adding events; ``flush`` dispatches now instead of in the next turn."""

    def __init__(self, reactor: IReactorTime, observers: Observers) -> None:
        self._reactor = reactor
        self._observers = observers
        self.dirty: list[Group] = []  # groups with pending events
        self.selected: list[CacheEvent] = []  # events whose encoded forms are dropped after the dispatch
        self.noted = False  # whether observers are to be notified after the dispatch
        self._scheduled = False
        self._running = False
        self._rest: Iterator[None] | None = None  # the unfinished dispatch of an earlier turn
        self._group: Group | None = None  # the group whose watches are being served
        self._left = _WATCHES_AT_ONCE  # watches before the clock is read again
        self._waiting: list[Deferred[None]] = []  # callers of ``wait_observed``

    def wait_observed(self) -> Deferred[None] | None:
        """Waits until observers have received all events so far; None when they have."""
        if not self.noted:
            return None
        deferred: Deferred[None] = Deferred()
        self._waiting.append(deferred)
        return deferred

    @property
    def busy(self) -> bool:
        return self._scheduled or self.noted

    def behind(self, watch: Watcher) -> bool:
        """Whether a watch has not received all events yet."""
        return watch.behind or (self._group is not None and watch in self._group.watches)

    def schedule(self) -> None:
        if not self._scheduled and (self.dirty or self.noted or self._rest is not None):
            self._scheduled = True
            self._reactor.callLater(0, self._fire)

    def _fire(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self, *, at_once: bool = False) -> None:
        """Dispatches all events (``at_once``), or as many as fit into a turn."""
        if self._running:
            return
        self._running = True
        until = perf_counter() + _TURN_SECONDS
        at_once = at_once or self._holds_too_much()
        try:
            for _ in range(2 if self._rest is not None and at_once else 1):
                if self._rest is None:
                    self._rest = self._dispatch()
                for _ in self._rest:
                    if not at_once and perf_counter() > until:
                        return
                self._rest = None
        finally:
            self._running = False
            self.schedule()

    def _holds_too_much(self) -> bool:
        if self._rest is None:
            return False
        size = sum(len(event.entry.data) for event in self.selected)
        return len(self.selected) > _MAX_HELD_EVENTS or size > _MAX_HELD_BYTES

    def _dispatch(self) -> Iterator[None]:
        """Dispatches the events added so far; yields where the clock should be read."""
        dirty, selected = self.dirty[:], self.selected[:]
        self.dirty.clear()
        self.selected.clear()
        self._left = _WATCHES_AT_ONCE
        for group in dirty:
            self._group = group
            try:
                yield from self._dispatch_group(group)
            except Exception:
                log.failure("dispatching watch events failed; the watches of this selection end")
                for watch in list(group.watches):
                    watch.fail()
        self._group = None
        if self.noted:
            self.noted = False
            self._observers.flush()
        waiting, self._waiting = self._waiting, []
        for event in selected:
            event.forget()
        for deferred in waiting:  # last, because waiting code resumes within this call
            deferred.callback(None)

    def _dispatch_group(self, group: Group) -> Iterator[None]:
        events, group.pending = group.pending, []
        batch = Batch(events)
        share = 1 if batch.size < _SMALL_BYTES else _WATCHES_AT_ONCE
        for watch in list(group.watches):
            if watch not in group.watches:  # it has ended meanwhile
                continue
            try:
                watch.deliver(batch)
            except Exception:
                log.failure("delivering watch events failed; the watch ends")
                watch.fail()
            self._left -= share
            if self._left <= 0:
                self._left = _WATCHES_AT_ONCE
                yield
