"""Observers of all caches at once: each gets the changes that concern it, in order, once a turn, after the watches.

A watch of every resource would make each write more expensive.  An observer only costs one call of ``concerns`` for a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

from kapi.watchcache.event import CacheEvent

if TYPE_CHECKING:
    from kapi.watchcache.cache import Cache

log = Logger()


class Observer(Protocol):
    """A component that follows all caches of a store, such as the garbage collector."""

    @property
    def marks(self) -> tuple[bytes, ...]:
        """An object concerns the observer only if its stored bytes contain one of these."""

    def concerns(self, event: CacheEvent) -> bool:
        """Whether ``changed`` should get the event.  Called for every change, so it must be cheap.  Raises nothing."""

    def changed(self, events: Sequence[tuple[Cache, CacheEvent]]) -> None:
        """Called with the events that concern the observer, in order."""

    def loaded(self, caches: Iterable[Cache]) -> None:
        """Called with caches that were reloaded: there were no events for the changes in them."""


class Observers:
    """The observers of one store's caches, and the events that wait for them."""

    def __init__(self) -> None:
        self._waiting: dict[Observer, list[tuple[Cache, CacheEvent]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, observer: Observer) -> None:
        self._waiting[observer] = []

    def remove(self, observer: Observer) -> None:
        self._waiting.pop(observer, None)

    def note(self, cache: Cache, event: CacheEvent) -> bool:
        """Keeps the change for ``flush``; returns whether it concerns any observer."""
        noted = False
        for observer, waiting in self._waiting.items():
            if observer.concerns(event):
                waiting.append((cache, event))
                noted = True
        return noted

    def flush(self) -> None:
        for observer in list(self._waiting):
            if waiting := self._waiting.get(observer):  # it may have been removed by one before it
                self._waiting[observer] = []
                try:
                    observer.changed(waiting)
                except Exception:
                    log.failure("an observer of all caches has failed; it reads them again")
                    self._notify_loaded(observer, dict.fromkeys(cache for cache, _ in waiting))

    def loaded(self, caches: Iterable[Cache]) -> None:
        caches = list(caches)
        for observer in list(self._waiting):
            self._notify_loaded(observer, caches)

    def _notify_loaded(self, observer: Observer, caches: Iterable[Cache]) -> None:
        try:
            observer.loaded(caches)
        except Exception:  # the other observers must be notified as well
            log.failure("an observer of all caches failed to handle a reload")
