"""Deletes expired objects, by the compare-and-swap of all writes (upstream: etcd leases).

Any number of processes may sweep one store: each expired object is deleted once, by the first of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from kapi.process.timers import Repeated
from kapi.store.errors import KeyMissing, RevisionConflict, StoreUnavailable

INTERVAL_SECONDS = 5.0  # between sweeps
MAX_BATCH = 200


class Due(NamedTuple):
    """An expired object."""

    key: str
    revision: int
    head: bytes
    tail: bytes


class Sweepable(Protocol):
    def due(self, now: float, limit: int) -> Awaitable[list[Due]]: ...
    def delete(self, key: str, expected: int, head: bytes, tail: bytes) -> Awaitable[int]: ...


class Sweeper:
    """``clock`` returns unix seconds, to compare with ``expires``.  With ``reactor`` None it must not be started."""

    def __init__(self, store: Sweepable, reactor: IReactorTime | None, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._loop = None if reactor is None else Repeated(self._tick, reactor, "sweeping expired objects")

    def start(self) -> None:
        assert self._loop is not None
        self._loop.start(INTERVAL_SECONDS)

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.stop()

    def _tick(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._sweep_if_available())

    async def _sweep_if_available(self) -> None:
        with suppress(StoreUnavailable):  # the store logs it; the next sweep follows
            await self.sweep()

    async def sweep(self) -> int:
        """Deletes all expired objects; returns how many."""
        swept = 0
        while True:
            batch = await self._store.due(self._clock(), MAX_BATCH)
            before = swept
            for due in batch:
                try:
                    await self._store.delete(due.key, due.revision, due.head, due.tail)
                    swept += 1
                except (KeyMissing, RevisionConflict):
                    continue  # another process was faster, or changed the object meanwhile
            if swept == before:
                return swept
