"""Waiting until the caches have seen a revision, and which revision a read must wait for.

A read that must see every acknowledged write asks the store for its newest revision.  One question is on its way at a
time; who comes while it is on its way shares the next one, because the answer to the first may be older than what
they know of.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from kapi.machinery import status
from kapi.store.interface import Store

log = Logger()

MAX_WAIT_SECONDS = 3.0  # seconds until a revision that has not been reached is called too large


class Freshness:
    """``revision`` answers how far the caches are."""

    def __init__(self, store: Store, reactor: IReactorTime, revision: Callable[[], int]) -> None:
        self._store = store
        self._reactor = reactor
        self._revision = revision
        self._waiting: list[tuple[int, int, Deferred[None], IDelayedCall]] = []
        self._count = 0
        self._asking: list[Deferred[None]] | None = None  # the question on its way is for these
        self._next: list[Deferred[None]] = []

    def wait_for(self, revision: int) -> Deferred[None] | None:
        """None when already there.  Errs with the API's Timeout (too large resource version)."""
        if revision <= self._revision():
            return None
        deferred: Deferred[None] = Deferred()
        call = self._reactor.callLater(MAX_WAIT_SECONDS, self._too_large, deferred, revision)
        self._count += 1
        heapq.heappush(self._waiting, (revision, self._count, deferred, call))
        return deferred

    def advanced(self) -> None:
        """The caches have moved on."""
        waiting, now = self._waiting, self._revision()
        while waiting and waiting[0][0] <= now:
            _, _, deferred, call = heapq.heappop(waiting)
            if call.active():
                call.cancel()
            if not deferred.called:
                deferred.callback(None)

    def _too_large(self, deferred: Deferred[None], revision: int) -> None:
        if not deferred.called:
            deferred.errback(status.too_large_resource_version(revision, self._revision()))

    def ask(self) -> Deferred[None]:
        """Done when everything acknowledged before the call is in the caches.  Errs with StoreUnavailable."""
        deferred: Deferred[None] = Deferred()
        self._next.append(deferred)
        if self._asking is None:
            self._send()
        return deferred

    def _send(self) -> None:
        self._asking, self._next = self._next, []
        Deferred.fromCoroutine(self._question()).addErrback(
            lambda why: log.failure("the store was asked for its revision, and the answer is lost", why)
        )

    async def _question(self) -> None:
        error: Exception | None = None
        newest = 0
        try:
            newest = await self._store.revision()
        except Exception as caught:
            error = caught
        asking, self._asking = self._asking or [], None
        if self._next:
            self._send()
        if error is None:
            waiting = self.wait_for(newest)
            if waiting is not None:
                try:
                    await waiting
                except Exception as caught:
                    error = caught
        for deferred in asking:
            if deferred.called:
                continue
            if error is None:
                deferred.callback(None)
            else:
                deferred.errback(error)

    def stop(self, error: Exception) -> None:
        """Fails all who wait."""
        waiting, self._waiting = self._waiting, []
        for _, _, deferred, call in waiting:
            if call.active():
                call.cancel()
            if not deferred.called:
                deferred.errback(error)
