"""Logical clusters: what is under ``/clusters/NAME`` is an API server of its own, in the same process.

Upstream has nothing like it; kcp's logical clusters gave the paths their form.  A cluster is a store in memory; what serves
it is made when somebody first asks, and the controllers are started when somebody first writes.

Only with ``--enable-logical-clusters``; ``/clusters`` itself is for members of system:masters.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from kapi.endpoints.body import raw_body
from kapi.filters.chain import Handler
from kapi.machinery import names, status
from kapi.machinery.field import quote
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import SYSTEM_MASTERS
from kapi.server.delegation import Answer
from kapi.server.generic import GenericServer
from kapi.server.snapshots import Snapshots
from kapi.store.errors import Compacted
from kapi.store.memory import MemoryStore, Snapshot
from kapi.store.sweeper import INTERVAL, Sweeper

log = Logger()

PATH = "/clusters"
MAX_CLUSTERS = 20_000
ANNOTATION = "kapi/cluster"  # of audit events
_PREFIX = PATH + "/"
_READS = frozenset(["GET", "HEAD", "OPTIONS"])

Object = dict[str, Any]


class Served(Protocol):
    """What serves a cluster."""

    handle: Handler

    async def start(self) -> None:
        """Done when requests can be answered."""

    def begin(self) -> None:
        """Starts the controllers."""

    async def stop(self, why: Exception | None = None) -> None:
        """Ends controllers and watches; ``why`` Compacted tells their clients to list again."""

    def tick(self) -> None:
        """Once a second: bookmarks, and the end of old history."""


class LogicalCluster:
    """One; ``make`` makes what serves its store."""

    def __init__(
        self, name: str, store: MemoryStore, created: str, make: Callable[[MemoryStore], Served], begins: bool
    ) -> None:
        """``begins``: there may be work for the controllers before anybody writes."""
        self.name = name
        self.store = store
        self.created = created
        self.served: Served | None = None
        self._make = make
        self._begins = begins
        self._begun = False
        self._starting: Deferred[None] | None = None

    def handle(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        """The answer to a request whose path is the cluster's own."""
        served = self.served
        if served is None:
            served = self.served = self._make(self.store)
            self._starting = Deferred.fromCoroutine(served.start())
        if not self._begun and (self._begins or ctx.method not in _READS):
            self._begun = True
            served.begin()
        starting = self._starting
        if starting is not None:
            if not starting.called or starting.paused:
                return self._started_and(starting, served, ctx)
            self._starting = None
        return served.handle(ctx)

    async def _started_and(self, starting: Deferred[None], served: Served, ctx: RequestContext) -> Response:
        done: Deferred[None] = Deferred()

        def tell(result: Any) -> Any:
            done.callback(None)
            return result

        starting.addBoth(tell)
        await done
        answer = served.handle(ctx)
        return answer if isinstance(answer, Response) else await answer

    async def stop(self) -> None:
        if self.served is not None:
            await self.served.stop()

    async def reset(self, snapshot: Snapshot, clock: Callable[[], float]) -> None:
        """It holds what the snapshot does, at a new revision; watches end with 410."""
        revision = max(snapshot.revision, self.store.newest) + 1
        self.store = MemoryStore(None, clock, snapshot=snapshot._replace(revision=revision))
        served, self.served, self._starting = self.served, None, None
        self._begins, self._begun = True, False
        if served is not None:
            await served.stop(Compacted(0, revision))

    def record(self) -> Object:
        """What is told of it."""
        return {
            "name": self.name,
            "path": _PREFIX + self.name,
            "creationTimestamp": self.created,
            "revision": self.store.newest,
        }


class Clusters:
    """All there are.  ``fresh`` gives a new cluster's store, ``now`` the time as metadata carry it."""

    def __init__(
        self,
        reactor: Any,
        clock: Callable[[], float],
        fresh: Callable[[], MemoryStore],
        make: Callable[[MemoryStore], Served],
        now: Callable[[], str],
    ) -> None:
        self._reactor = reactor
        self._fresh, self._make, self._now = fresh, make, now
        self._clock = clock
        self._clusters: dict[str, LogicalCluster] = {}
        self._snapshots = Snapshots(self.snapshot)
        self._ticker = LoopingCall(self._tick)
        self._ticker.clock = reactor
        self._ticks = 0

    def __len__(self) -> int:
        return len(self._clusters)

    # -- life

    def start(self) -> None:
        self._ticker.start(1.0, now=False)

    async def stop(self) -> None:
        if self._ticker.running:
            self._ticker.stop()
        for name in list(self._clusters):
            await self.remove(name)

    def create(self, name: str, snapshot: Snapshot | None = None) -> LogicalCluster:
        """A fresh one, or a fork of a snapshot.  Raises TooManyRequests; the name must be free."""
        if len(self._clusters) >= MAX_CLUSTERS:
            raise status.too_many_requests(f"there are {MAX_CLUSTERS} logical clusters", 1)
        store = self._fresh() if snapshot is None else MemoryStore(None, self._clock, snapshot=snapshot)
        made = LogicalCluster(name, store, self._now(), self._make, snapshot is not None)
        self._clusters[name] = made
        return made

    def snapshot(self, name: str) -> Snapshot:
        """The state of a cluster.  Raises NotFound."""
        cluster = self._clusters.get(name)
        if cluster is None:
            raise _not_found(name)
        return cluster.store.snapshot()

    async def remove(self, name: str) -> bool:
        """Its watches end, its objects are gone.  False when there is none."""
        cluster = self._clusters.pop(name, None)
        if cluster is None:
            return False
        await cluster.stop()
        return True

    def _tick(self) -> Any:
        self._ticks += 1
        for cluster in list(self._clusters.values()):
            if cluster.served is not None:
                cluster.served.tick()
        if self._ticks % INTERVAL == 0:
            return Deferred.fromCoroutine(self._sweep())
        return None

    async def _sweep(self) -> None:
        for cluster in list(self._clusters.values()):
            if cluster.store.expiring:
                await Sweeper(cluster.store, None, self._clock).sweep()

    # -- requests

    def before(self, handler: Handler) -> Handler:
        """What answers requests, those of logical clusters among them."""

        def handle(ctx: RequestContext) -> Response | Awaitable[Response]:
            if ctx.path.startswith(_PREFIX):
                name, slash, rest = ctx.path[len(_PREFIX) :].partition("/")
                cluster = self._clusters.get(name)
                head = f"{_PREFIX}{name}".encode()
                if cluster is not None and slash and ctx.http.uri.startswith(head + b"/"):
                    ctx.path = "/" + rest
                    ctx.http.uri = ctx.http.uri[len(head) :]
                    ctx.annotations[ANNOTATION] = name
                    return cluster.handle(ctx)
            return handler(ctx)

        return handle

    def install(self, server: GenericServer) -> None:
        """Serves ``/clusters`` and what is right below."""
        server.route(PATH, self.answer, listed=False)
        server.route_below(PATH, self.answer)
        self._snapshots.install(server)

    def answer(self, ctx: RequestContext) -> Answer:
        """``/clusters`` and ``/clusters/NAME``.  Raises StatusError."""
        if ctx.user is None or SYSTEM_MASTERS not in ctx.user.groups:
            raise status.Forbidden("logical clusters are for members of system:masters")
        name = ctx.path[len(_PREFIX) :]
        if not name:
            return self._answer_all(ctx)
        if "/" in name:
            raise _not_found(name.partition("/")[0])
        if ctx.method == "PUT":
            found = self._clusters.get(name)
            if found is None:
                return _json(201, self._create(name, _field_of(raw_body(ctx), "from")).record())
            if _field_of(raw_body(ctx), "from"):
                raise status.AlreadyExists(f"logical cluster {quote(name)} already exists; PATCH resets it")
            return _json(200, found.record())
        cluster = self._clusters.get(name)
        if cluster is None:
            raise _not_found(name)
        if ctx.method == "DELETE":
            return self._remove([cluster])
        if ctx.method == "PATCH":
            return self._reset(cluster, self._snapshots.get(_field_of(raw_body(ctx), "from")))
        if ctx.method != "GET":
            raise status.method_not_allowed()
        return _json(200, cluster.record())

    def _answer_all(self, ctx: RequestContext) -> Answer:
        if ctx.method == "GET":
            return _json(200, {"clusters": [cluster.record() for cluster in self._clusters.values()]})
        if ctx.method == "DELETE":
            return self._remove(list(self._clusters.values()))
        if ctx.method != "POST":
            raise status.method_not_allowed()
        body = raw_body(ctx)
        name = _field_of(body, "name") or f"c-{secrets.token_hex(8)}"
        if name in self._clusters:
            raise status.AlreadyExists(f"logical cluster {quote(name)} already exists")
        return _json(201, self._create(name, _field_of(body, "from")).record())

    def _create(self, name: str, snapshot: str) -> LogicalCluster:
        """``snapshot`` is the name of what it begins with; "" is fresh."""
        problems = names.dns_label(name)
        if problems:
            raise status.bad_request(f"{quote(name)} is no name of a logical cluster: {'; '.join(problems)}")
        return self.create(name, self._snapshots.get(snapshot) if snapshot else None)

    async def _reset(self, cluster: LogicalCluster, snapshot: Snapshot) -> Response:
        await cluster.reset(snapshot, self._clock)
        return _json(200, cluster.record())

    async def _remove(self, clusters: list[LogicalCluster]) -> Response:
        for cluster in clusters:
            if self._clusters.get(cluster.name) is cluster:
                await self.remove(cluster.name)
                if cluster.served is not None:
                    await deferLater(self._reactor, 0)  # others have their turn
        return _json(200, {"clusters": [cluster.record() for cluster in clusters]})


def _not_found(name: str) -> status.StatusError:
    return status.NotFound(f"there is no logical cluster {quote(name)}")


def _field_of(body: bytes, name: str) -> str:
    """Of a request's object; "" when it has none.  Raises BadRequest."""
    try:
        found = (orjson.loads(body) if body else {}).get(name, "")
    except (ValueError, AttributeError):
        raise status.bad_request('expected {"name": "...", "from": "..."}') from None
    if not isinstance(found, str):
        raise status.bad_request(f"{name}: must be a string")
    return found


def _json(code: int, tree: Object) -> Response:
    return Response(code, orjson.dumps(tree))
