"""One logical cluster: a store in memory, and a server of it while there are requests.

The server is made with the first request, and dropped when there was none for a while ("asleep").  Objects and history stay in
the store, so that a client can resume its watch.  The first write starts the controllers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from kapi.filters.chain import Handler
from kapi.machinery import status
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object
from kapi.registry.environment import Identities
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.store.errors import Compacted
from kapi.store.memory import MemoryStore, Snapshot
from kapi.testbed.moved_clock import MovedClock

log = Logger()
_MAX_ATTEMPTS = 4  # of one request to find the server started: it may just be stopping or reset
_READS = frozenset(["GET", "HEAD", "OPTIONS"])


class Served(Protocol):
    """The server of a cluster."""

    handle: Handler

    async def start(self) -> None:
        """Returns when requests can be answered."""

    def begin(self) -> None:
        """Starts the controllers."""

    async def stop(self, why: Exception | None = None) -> None:
        """Ends controllers and watches; with Compacted as ``why`` the watches' clients list again."""

    def tick(self) -> None:
        """Called once a second: sends bookmarks and drops old history."""


class Gate(Protocol):
    """Decides whether a request may wake a sleeping cluster."""

    async def __call__(self, ctx: RequestContext, store: MemoryStore, clock: MovedClock) -> Response | None:
        """Returns the refusal, or None when it may; then ``ctx.user`` is set.  Raises StatusError."""


Make = Callable[[MemoryStore, MovedClock, Identities | None], Served]


class LogicalCluster:
    """A store, and the server that ``make`` builds for it; both use ``clock``, which a test can advance."""

    def __init__(
        self,
        name: str,
        store: MemoryStore,
        created: str,
        make: Make,
        clock: MovedClock,
        begins: bool,
        gate: Gate | None = None,
        identities: Identities | None = None,
    ) -> None:
        """``begins``: the controllers may have work before the first write.

        ``gate`` decides which requests may wake the cluster.  ``identities`` make uids and generated names reproducible.
        """
        self.name = name
        self.store = store
        self.created = created
        self.served: Served | None = None
        self.requests = 0  # not answered yet, with watches
        self.last_request = 0.0  # reactor seconds when the last one came or ended
        self.clock = clock
        self.identities = identities
        self._make = make
        self._seconds: Callable[[], float] = clock.reactor.seconds
        self._gate = gate
        self._begins = begins
        self._begun = False
        self._removed = False
        self._waiting: Deferred[None] | None = None  # fires when it is started, or the former server has stopped

    def handle(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        """Answers a request; its path is relative to the cluster."""
        self.requests += 1
        self.last_request = self._seconds()
        ctx.finishers.append(self._finished)
        served = self.served
        if self._waiting is None and served is None and self._gate is not None:
            return self._wake_if_allowed(ctx, self._gate)
        if self._waiting is None and served is None:
            self._start()
            served = self.served
        if self._waiting is not None or served is None:
            return self._answer_when_started(ctx)
        return self._answer(ctx, served)

    def _answer(self, ctx: RequestContext, served: Served) -> Response | Awaitable[Response]:
        if not self._begun and (self._begins or ctx.method not in _READS):
            self._begun = True
            self.clock.reactor.callLater(0, self._begin, served)  # later, so that the answer does not wait for it
        return served.handle(ctx)

    async def _wake_if_allowed(self, ctx: RequestContext, gate: Gate) -> Response:
        """Only a request that the gate accepts wakes the cluster."""
        refusal = await gate(ctx, self.store, self.clock)
        return await self._answer_when_started(ctx) if refusal is None else refusal

    def _begin(self, served: Served) -> None:
        if self.served is served:
            served.begin()

    def _finished(self, ctx: RequestContext, code: int) -> None:
        self.requests -= 1
        self.last_request = self._seconds()

    def _start(self) -> None:
        if self._removed:
            raise status.NotFound(f"there is no logical cluster {quote(self.name)} any more")
        served = self.served = self._make(self.store, self.clock, self.identities)
        self._wait_for(served, served.start())

    def _wait_for(self, served: Served, running: Awaitable[None]) -> None:
        """Makes requests wait for ``running``.  A server that cannot be started is dropped; the next request makes a new one."""

        async def run() -> None:
            try:
                await running
            except CancelledError:
                raise
            except Exception:
                if self.served is served:
                    self.served = None
                log.failure("a logical cluster could not be started or stopped")
            self._waiting = None

        waiting = Deferred.fromCoroutine(run())
        if not waiting.called:
            self._waiting = waiting

    async def _answer_when_started(self, ctx: RequestContext) -> Response:
        for _ in range(_MAX_ATTEMPTS):
            if self._waiting is None and self.served is None:
                self._start()
            if self._waiting is None:
                break
            turn: Deferred[None] = Deferred()
            self._waiting.addBoth(_fire, turn)
            await turn
        if self._waiting is not None or self.served is None:
            raise status.service_unavailable("the logical cluster could not be started", 1)
        answer = self._answer(ctx, self.served)
        return answer if isinstance(answer, Response) else await answer

    def sleep(self) -> None:
        """Drops the server."""
        served, self.served = self.served, None
        self._begins, self._begun = self._begins or self._begun, False
        if served is not None:
            self._wait_for(served, served.stop())

    async def remove(self) -> None:
        """Drops the server for good."""
        self._removed = True
        self.store.retire("the logical cluster was removed")
        served, self.served = self.served, None
        if served is not None:
            await self._stop(served)

    async def reset(self, snapshot: Snapshot) -> None:
        """Replaces the objects by those of a snapshot, at a new revision; watches end with 410."""
        self.store.retire("the logical cluster was reset")
        revision = max(snapshot.revision, self.store.newest) + 1
        self.store = MemoryStore(None, self.clock.time, snapshot=snapshot._replace(revision=revision))
        served, self.served = self.served, None
        self._begins, self._begun = True, False
        if served is not None:
            await self._stop(served, Compacted(0, revision))

    async def _stop(self, served: Served, why: Exception | None = None) -> None:
        try:
            await served.stop(why)
        except CancelledError:
            raise
        except Exception:  # it is dropped in any case, and others wait to be stopped
            log.failure("the logical cluster {name} was not stopped in order", name=self.name)

    def record(self) -> Object:
        """The cluster as the API shows it."""
        seeded = {} if self.identities is None else {"seed": self.identities.seed}
        return {
            "name": self.name,
            "path": f"/clusters/{self.name}",
            "creationTimestamp": self.created,
            "revision": self.store.newest,
            "awake": self.served is not None,
            **seeded,
        }


def _fire(result: object, waiting: Deferred[None]) -> object:
    if not waiting.called:
        waiting.callback(None)
    return result
