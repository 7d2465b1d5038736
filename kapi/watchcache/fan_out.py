"""Hands the events of a turn to their watchers: as many as fit into a turn of the reactor, the others in the next ones.

A thousand watches that are sent an object of 100 kB are 100 MB to encrypt, and nobody else is served meanwhile.  Upstream gives
each watcher a goroutine.
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
_TURN_SECONDS = 0.01  # seconds of a turn
_SMALL, _TOGETHER = 16 * 1024, 16  # bytes of events, and the watches that are handed them without a look at the clock
_MAX_HELD = 1000  # events that wait for others to be handed out; beyond it who writes waits
_MAX_HELD_BYTES = 32 * 1024 * 1024  # of their objects


class FanOut:
    """``schedule`` is called when something was added, ``flush`` does not wait for the turn's end."""

    def __init__(self, reactor: IReactorTime, observers: Observers) -> None:
        self._reactor = reactor
        self._observers = observers
        self.dirty: list[Group] = []  # groups with pending events
        self.selected: list[CacheEvent] = []  # events whose encoded forms are not needed afterwards
        self.noted = False  # an observer is to be notified afterwards
        self._scheduled = False
        self._running = False
        self._rest: Iterator[None] | None = None  # what the last turn had no time for
        self._group: Group | None = None  # whose watches are being handed theirs
        self._left = _TOGETHER  # before the next look at the clock
        self._waiting: list[Deferred[None]] = []  # for the observers

    def wait_observed(self) -> Deferred[None] | None:
        """Done when observers have got all that has come; None when they have."""
        if not self.noted:
            return None
        deferred: Deferred[None] = Deferred()
        self._waiting.append(deferred)
        return deferred

    @property
    def busy(self) -> bool:
        return self._scheduled or self.noted

    def behind(self, watch: Watcher) -> bool:
        """Whether something that has happened is still to be handed to it."""
        return watch.behind or (self._group is not None and watch in self._group.watches)

    def schedule(self) -> None:
        if not self._scheduled and (self.dirty or self.noted or self._rest is not None):
            self._scheduled = True
            self._reactor.callLater(0, self._fire)

    def _fire(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self, *, at_once: bool = False) -> None:
        """Everything ``at_once``, else what there is time for."""
        if self._running:
            return
        self._running = True
        until = perf_counter() + _TURN_SECONDS
        at_once = at_once or self._holds_too_much()
        try:
            for _ in range(2 if self._rest is not None and at_once else 1):
                if self._rest is None:
                    self._rest = self._hand_out()
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
        return len(self.selected) > _MAX_HELD or size > _MAX_HELD_BYTES

    def _hand_out(self) -> Iterator[None]:
        """One watch after the other, some at a time."""
        dirty, selected = self.dirty[:], self.selected[:]
        self.dirty.clear()
        self.selected.clear()
        self._left = _TOGETHER
        for group in dirty:
            self._group = group
            try:
                yield from self._hand_to(group)
            except Exception:
                log.failure("handing out watch events failed; the watches of this selection end")
                for watch in list(group.watches):
                    watch.end(None)
        self._group = None
        if self.noted:
            self.noted = False
            self._observers.flush()
        waiting, self._waiting = self._waiting, []
        for event in selected:
            event.forget()
        for deferred in waiting:  # last: who waits goes on within this call
            deferred.callback(None)

    def _hand_to(self, group: Group) -> Iterator[None]:
        events, group.pending = group.pending, []
        batch = Batch(events)
        share = 1 if batch.size < _SMALL else _TOGETHER
        for watch in list(group.watches):
            if watch not in group.watches:  # it has ended meanwhile
                continue
            try:
                watch.deliver(batch)
            except Exception:
                log.failure("delivering watch events failed; the watch ends")
                watch.end(None)
            self._left -= share
            if self._left <= 0:
                self._left = _TOGETHER
                yield
