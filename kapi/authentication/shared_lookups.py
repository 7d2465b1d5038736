"""One lookup for all requests that need the same answer at once (upstream: the singleflight group of ``token/cache``).

A controller with a hundred requests on their way has one token: when it is remembered no longer, its webhook is asked once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from kapi.authentication.metrics import TOKEN_CACHES

Answer = TypeVar("Answer")


class SharedLookups(Generic[Answer]):
    """A lookup ends early when nobody waits for it any more: who asks and leaves costs nothing."""

    def __init__(self) -> None:
        self._running: dict[bytes, _Lookup[Answer]] = {}

    def ask(self, key: bytes, begin: Callable[[], Awaitable[Answer]]) -> Deferred[Answer]:
        """The answer of the lookup for ``key`` that is under way, or of the one that ``begin`` begins."""
        known = self._running.get(key)
        if known is not None:
            return known.wait()
        lookup: _Lookup[Answer] = _Lookup(lambda: self._forget(key, lookup))
        self._running[key] = lookup
        waiting = lookup.wait()

        async def run() -> Answer:
            return await begin()

        lookup.asking = Deferred.fromCoroutine(run())
        lookup.asking.addBoth(self._answered, key, lookup)
        return waiting

    def _answered(self, result: Answer | Failure, key: bytes, lookup: _Lookup[Answer]) -> None:
        self._forget(key, lookup)
        lookup.end(result)

    def _forget(self, key: bytes, lookup: _Lookup[Answer]) -> None:
        if self._running.get(key) is lookup:
            del self._running[key]


class _Lookup(Generic[Answer]):
    """One, and those who wait for it.  ``forget`` is called before it is cancelled, which may take its time."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget
        self.asking: Deferred[Answer] | None = None
        self._waiting: dict[Deferred[Answer], None] = {}

    def wait(self) -> Deferred[Answer]:
        waiting: Deferred[Answer] = Deferred(self._left)
        self._waiting[waiting] = None
        TOKEN_CACHES.blocked += 1
        return waiting

    def _left(self, waiting: Deferred[Answer]) -> None:
        if self._waiting.pop(waiting, waiting) is None:
            TOKEN_CACHES.blocked -= 1
        if not self._waiting and self.asking is not None:
            self._forget()
            self.asking.cancel()

    def end(self, result: Answer | Failure) -> None:
        waiting, self._waiting = self._waiting, {}
        TOKEN_CACHES.blocked -= len(waiting)
        for one in waiting:
            if not one.called:  # cancelled because of another one's answer
                one.callback(result)
