"""Observers of all caches at once: what concerns one reaches it in order, after the watchers, once a turn.

A watch of each resource would cost every write something; here a write costs the question whether it is of concern.
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
    @property
    def marks(self) -> tuple[bytes, ...]:
        """An object that is there may be of concern only when its bytes have one of these."""

    def concerns(self, event: CacheEvent) -> bool:
        """Asked of every change as it is applied: a look at the bytes, no more.  Raises nothing."""

    def changed(self, events: Sequence[tuple[Cache, CacheEvent]]) -> None:
        """What concerned, in order."""

    def loaded(self, caches: Iterable[Cache]) -> None:
        """These have been loaded again: there was no event for what has changed in them."""


class Observers:
    """Those of one store's caches."""

    def __init__(self) -> None:
        self._waiting: dict[Observer, list[tuple[Cache, CacheEvent]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, observer: Observer) -> None:
        self._waiting[observer] = []

    def remove(self, observer: Observer) -> None:
        self._waiting.pop(observer, None)

    def note(self, cache: Cache, event: CacheEvent) -> bool:
        """Keeps the change for ``flush``; whether an observer wants it."""
        noted = False
        for observer, waiting in self._waiting.items():
            if observer.concerns(event):
                waiting.append((cache, event))
                noted = True
        return noted

    def flush(self) -> None:
        for observer, waiting in list(self._waiting.items()):
            if not waiting:
                continue
            self._waiting[observer] = []
            try:
                observer.changed(waiting)
            except Exception:
                log.failure("an observer of all caches has failed; it reads them again")
                self._tell_loaded(observer, dict.fromkeys(cache for cache, _ in waiting))

    def loaded(self, caches: Iterable[Cache]) -> None:
        caches = list(caches)
        for observer in list(self._waiting):
            self._tell_loaded(observer, caches)

    def _tell_loaded(self, observer: Observer, caches: Iterable[Cache]) -> None:
        try:
            observer.loaded(caches)
        except Exception:  # of this observer alone
            log.failure("an observer of all caches does not know what was loaded")
