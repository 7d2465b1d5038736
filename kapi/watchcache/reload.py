"""Reloads the cache of one resource from the store after a fault, while the other resources are served.

Upstream: client-go's Reflector, which lists again when its watch fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.process.driver import Call
from kapi.store.interface import DELETED, Change, StoredObject
from kapi.watchcache.contents import Contents

log = Logger()

BACK_OFF = (0.05, 30.0)  # seconds before the first attempt, and at most before later ones
MAX_WAIT_SECONDS = 3.0  # a read that waits for the reload fails after that
MAX_MISSED = 100_000  # changes kept during a reload; with more the scan starts again
_QUIET_SECONDS = 60.0  # after so long without a fault the back-off starts again

Scan = Callable[[], Awaitable[Sequence[StoredObject]]]
#: waits until the caches have seen the store's newest revision, which the scan cannot exceed
Reached = Callable[[], Awaitable[None]]


class Reload:
    """The reload of one resource; ``running`` from the fault until ``load`` has been called with the new contents.

    ``call`` runs ``prepare``, which takes long, in slices.  ``load`` also gets the changes that arrived during ``prepare``.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        name: str,
        call: Call,
        scan: Scan,
        reached: Reached,
        prepare: Callable[[Iterable[StoredObject]], Contents],
        load: Callable[[Contents, Sequence[Change]], None],
    ) -> None:
        self._reactor = reactor
        self._name = name
        self._scan = scan
        self._reached = reached
        self._call = call
        self._prepare = prepare
        self._load = load
        self._missed: list[Change] = []
        self._overflow = False
        self._attempts = 0
        self._last = float("-inf")
        self._waiting: list[tuple[Deferred[None], IDelayedCall]] = []
        self._task: Deferred[None] | None = None
        self.running = False
        self.count = 0

    def begin(self) -> None:
        """Starts a reload after a fault.  Until it ends, changes must be passed to ``missed``."""
        now = self._reactor.seconds()
        if now - self._last > _QUIET_SECONDS:
            self._attempts = 0
        self._last = now
        self.count += 1
        if not self.running:
            self.running = True
            self._task = Deferred.fromCoroutine(self._run())
            self._task.addErrback(self._ended)

    def end(self) -> None:
        """Ends the reload: it is done, all caches were loaded, or the server stops."""
        self.running = False
        self._missed = []
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        waiting, self._waiting = self._waiting, []
        for deferred, call in waiting:
            if call.active():
                call.cancel()
            if not deferred.called:
                deferred.callback(None)

    def missed(self, change: Change) -> None:
        """Keeps a change that arrives during the reload."""
        if len(self._missed) < MAX_MISSED:
            self._missed.append(change)
        else:
            self._overflow = True

    def wait(self) -> Deferred[None]:
        """Waits until the cache can be read again.  Errs with TooManyRequests after 3 s."""
        deferred: Deferred[None] = Deferred()
        call = self._reactor.callLater(MAX_WAIT_SECONDS, self._wait_timed_out, deferred)
        self._waiting.append((deferred, call))
        return deferred

    def _wait_timed_out(self, deferred: Deferred[None]) -> None:
        self._waiting = [waiting for waiting in self._waiting if waiting[0] is not deferred]
        if not deferred.called:
            deferred.errback(status.too_many_requests("storage is (re)initializing", 1))

    def _ended(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            log.failure("reloading the cache of {name} ended", failure, name=self._name)

    async def _run(self) -> None:
        while True:
            delay = min(BACK_OFF[0] * 2 ** min(self._attempts, 20), BACK_OFF[1])
            self._attempts += 1
            await deferLater(self._reactor, delay, lambda: None)
            self._missed, self._overflow = [], False
            try:
                found = {obj.key: obj for obj in await self._scan()}
                await self._reached()
                if self._overflow:
                    continue
                merged_before = len(self._missed)
                contents = await self._call(self._merge, found, self._missed[:merged_before])
                if self._overflow:
                    continue
                self._load(contents, self._missed[merged_before:])
                log.info("the cache of {name} is loaded again", name=self._name)
            except CancelledError:
                raise
            except Exception as error:
                log.error("the cache of {name} cannot be reloaded yet: {error}", name=self._name, error=str(error))
                continue
            self._task = None  # ``end`` must not cancel this coroutine
            self.end()
            return

    def _merge(self, found: dict[str, StoredObject], changes: Sequence[Change]) -> Contents:
        return self._prepare(merged(found, changes))


def merged(found: dict[str, StoredObject], changes: Sequence[Change]) -> list[StoredObject]:
    """The objects after the last of ``changes``; ``found`` was scanned at some point during them, and is changed."""
    for change in elements(changes):
        seen = found.get(change.key)
        if seen is not None and seen.revision >= change.revision:
            continue
        if change.kind == DELETED:
            found.pop(change.key, None)
        else:
            found[change.key] = StoredObject(change.key, change.revision, change.data)
    return list(found.values())
