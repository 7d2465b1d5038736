"""Deletes what has expired, through the same compare-and-swap as everybody else (upstream: etcd leases).

Any number of processes may sweep one store: each expired object is deleted once, by whoever comes first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from kapi.store.errors import KeyMissing, RevisionConflict, StoreUnavailable

INTERVAL = 5.0  # seconds between looks
BATCH = 200

log = Logger()


class Due(NamedTuple):
    """An object whose time has come."""

    key: str
    revision: int
    head: bytes
    tail: bytes


class Sweepable(Protocol):
    def due(self, now: float, limit: int) -> Awaitable[list[Due]]: ...
    def delete(self, key: str, expected: int, head: bytes, tail: bytes) -> Awaitable[int]: ...


class Sweeper:
    """``clock`` gives unix seconds: what ``expires`` is compared with.  Without a reactor it only sweeps when it is asked to."""

    def __init__(self, store: Sweepable, reactor: IReactorTime | None, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._loop = LoopingCall(lambda: Deferred.fromCoroutine(self._tick()))
        if reactor is not None:
            self._loop.clock = reactor

    def start(self) -> None:
        if not self._loop.running:
            self._loop.start(INTERVAL, now=False)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()

    async def _tick(self) -> None:
        try:
            await self.sweep()
        except StoreUnavailable:
            pass  # the store says so itself; the next look comes
        except Exception:
            log.failure("sweeping expired objects failed")

    async def sweep(self) -> int:
        """Deletes everything that is due; answers how much that was."""
        swept = 0
        while True:
            batch = await self._store.due(self._clock(), BATCH)
            before = swept
            for due in batch:
                try:
                    await self._store.delete(due.key, due.revision, due.head, due.tail)
                    swept += 1
                except (KeyMissing, RevisionConflict):
                    continue  # somebody else was faster, or gave it more time
            if swept == before:
                return swept
