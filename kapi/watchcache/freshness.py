"""Waiting until the caches have seen a revision, and finding the revision that a consistent read must wait for.

A read that must see every acknowledged write requests the newest revision from the store.  Only one such request is in flight at
a time.  Reads that arrive meanwhile share the next request, because the answer to the present one may be older than writes that
they must see.
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

MAX_WAIT_SECONDS = 3.0  # after that a revision that was not reached is reported as too large


class Freshness:
    """``revision`` returns the newest revision in the caches."""

    def __init__(self, store: Store, reactor: IReactorTime, revision: Callable[[], int]) -> None:
        self._store = store
        self._reactor = reactor
        self._revision = revision
        self._waiting: list[tuple[int, int, Deferred[None], IDelayedCall]] = []
        self._count = 0
        self._asking: list[Deferred[None]] | None = None  # reads that wait for the request in flight
        self._next: list[Deferred[None]] = []  # reads that wait for the request after it

    def wait_for(self, revision: int) -> Deferred[None] | None:
        """Waits until the caches have seen a revision; None when they have.

        Errs with the API's Timeout (too large resource version) after ``MAX_WAIT_SECONDS``.
        """
        if revision <= self._revision():
            return None
        deferred: Deferred[None] = Deferred()
        call = self._reactor.callLater(MAX_WAIT_SECONDS, self._too_large, deferred, revision)
        self._count += 1
        heapq.heappush(self._waiting, (revision, self._count, deferred, call))
        return deferred

    def advanced(self) -> None:
        """Called when the caches have seen a newer revision."""
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
        """Waits until every write acknowledged before the call is in the caches.  Errs with StoreUnavailable."""
        deferred: Deferred[None] = Deferred()
        self._next.append(deferred)
        if self._asking is None:
            self._send()
        return deferred

    def _send(self) -> None:
        self._asking, self._next = self._next, []
        Deferred.fromCoroutine(self._question()).addErrback(
            lambda why: log.failure("requesting the store's revision failed", why)
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
        """Fails all waiting reads with an error."""
        waiting, self._waiting = self._waiting, []
        for _, _, deferred, call in waiting:
            if call.active():
                call.cancel()
            if not deferred.called:
                deferred.errback(error)
