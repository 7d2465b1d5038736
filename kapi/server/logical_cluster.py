"""One logical cluster: a store in memory, and what serves it while somebody asks.

What serves is made at the first request and let go when nobody has asked for a while; objects and history stay in the store, so
that a watch goes on where it was.  The controllers are started by the first write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from kapi.filters.chain import Handler
from kapi.machinery import status
from kapi.machinery.field import quote
from kapi.machinery.tree import Object
from kapi.registry.identities import Identities
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.server.moved_clock import MovedClock
from kapi.store.errors import Compacted
from kapi.store.memory import MemoryStore, Snapshot

log = Logger()
_MAX_ATTEMPTS = 4  # to find it started, by one request: it may just be stopping, or be reset
_READS = frozenset(["GET", "HEAD", "OPTIONS"])


class Served(Protocol):
    """What serves a cluster."""

    handle: Handler

    async def start(self) -> None:
        """Done when requests can be answered."""

    def begin(self) -> None:
        """Starts the controllers."""

    async def stop(self, why: Exception | None = None) -> None:
        """Ends controllers and watches; with Compacted as ``why``, clients list again."""

    def tick(self) -> None:
        """Once a second: bookmarks, and the end of old history."""


class Gate(Protocol):
    """Asked about a request while nothing serves the cluster."""

    async def __call__(self, ctx: RequestContext, store: MemoryStore, clock: MovedClock) -> Response | None:
        """The refusal; None when the request is to wake the cluster, and ``ctx`` knows the user.  Raises StatusError."""


Make = Callable[[MemoryStore, MovedClock, Identities | None], Served]


class LogicalCluster:
    """``make`` makes what serves its store by its ``clock``, which may be moved ahead."""

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
        """``begins``: there may be work for the controllers before anybody writes; ``gate`` says who may wake it.

        By ``identities`` its uids and generated names come out the same each time.
        """
        self.name = name
        self.store = store
        self.created = created
        self.served: Served | None = None
        self.requests = 0  # that are not answered yet, watches among them
        self.asked = 0.0  # when the last one came or ended
        self.clock = clock
        self.identities = identities
        self._make = make
        self._seconds: Callable[[], float] = clock.reactor.seconds
        self._gate = gate
        self._begins = begins
        self._begun = False
        self._removed = False
        self._waiting: Deferred[None] | None = None  # until it is started, or what served before has stopped

    def handle(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        """The answer to a request whose path is the cluster's own."""
        self.requests += 1
        self.asked = self._seconds()
        ctx.finishers.append(self._finished)
        served = self.served
        if self._waiting is None and served is None and self._gate is not None:
            return self._asked_asleep(ctx, self._gate)
        if self._waiting is None and served is None:
            self._start()
            served = self.served
        if self._waiting is not None or served is None:
            return self._later(ctx)
        return self._answer(ctx, served)

    def _answer(self, ctx: RequestContext, served: Served) -> Response | Awaitable[Response]:
        if not self._begun and (self._begins or ctx.method not in _READS):
            self._begun = True
            self.clock.reactor.callLater(0, self._begin, served)  # the answer need not wait for it
        return served.handle(ctx)

    async def _asked_asleep(self, ctx: RequestContext, gate: Gate) -> Response:
        """Whose credentials are good for nothing does not wake it."""
        refusal = await gate(ctx, self.store, self.clock)
        return await self._later(ctx) if refusal is None else refusal

    def _begin(self, served: Served) -> None:
        if self.served is served:
            served.begin()

    def _finished(self, ctx: RequestContext, code: int) -> None:
        self.requests -= 1
        self.asked = self._seconds()

    def _start(self) -> None:
        if self._removed:
            raise status.NotFound(f"there is no logical cluster {quote(self.name)} any more")
        served = self.served = self._make(self.store, self.clock, self.identities)
        self._wait_for(served, served.start())

    def _wait_for(self, served: Served, running: Awaitable[None]) -> None:
        """Requests go on when it has ended.  What cannot be started is made anew for the next request."""

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

    async def _later(self, ctx: RequestContext) -> Response:
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
        """Lets go what serves it."""
        served, self.served = self.served, None
        self._begins, self._begun = self._begins or self._begun, False
        if served is not None:
            self._wait_for(served, served.stop())

    async def remove(self) -> None:
        """Nothing is answered any more."""
        self._removed = True
        served, self.served = self.served, None
        if served is not None:
            await served.stop()

    async def reset(self, snapshot: Snapshot) -> None:
        """It holds what the snapshot does, at a new revision; watches end with 410."""
        revision = max(snapshot.revision, self.store.newest) + 1
        self.store = MemoryStore(None, self.clock.time, snapshot=snapshot._replace(revision=revision))
        served, self.served = self.served, None
        self._begins, self._begun = True, False
        if served is not None:
            await served.stop(Compacted(0, revision))

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
