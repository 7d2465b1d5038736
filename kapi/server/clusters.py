"""Logical clusters: what is under ``/clusters/NAME`` is an API server of its own, in the same process.

Upstream has nothing like it; kcp's logical clusters gave the paths their form.  Only with ``--enable-logical-clusters``;
``/clusters`` itself is for members of system:masters.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.endpoints.body import raw_body
from kapi.filters.chain import Filter, Handler
from kapi.machinery import names, status
from kapi.machinery.field import quote
from kapi.machinery.tree import Object
from kapi.registry.identities import MAX_SEED, Identities
from kapi.request.context import RequestContext
from kapi.request.repeated import Repeated
from kapi.request.response import Response
from kapi.server.delegation import Answer
from kapi.server.generic import GenericServer
from kapi.server.logical_cluster import Gate, LogicalCluster, Make, Served
from kapi.server.masters import require_masters
from kapi.server.moved_clock import MovedClock
from kapi.server.snapshots import Snapshots
from kapi.store.memory import MemoryStore, Snapshot
from kapi.store.sweeper import INTERVAL, Sweeper

log = Logger()

PATH = "/clusters"
MAX_CLUSTERS = 20_000
MAX_AWAKE = 200  # that are served at a time, besides those that have requests or watches
IDLE = 60.0  # seconds without a request after which nothing is kept ready for the next
ANNOTATION = "kapi/cluster"  # of audit events
CONTENT_TYPE = "kapi/content-type"  # of the events of patches: without it nobody could repeat one
_WAKES_PER_LOOK = 5  # clusters are woken between two looks at how many are awake
_MAX_SLEEPS_PER_TURN = 10  # fall asleep in one turn: each takes milliseconds
_PREFIX = PATH + "/"
_asked = attrgetter("asked")


class Clusters:
    """All there are.

    ``fresh`` gives a new cluster's store, ``now`` the time as metadata carry it; ``gate`` says who may wake one.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        clock: Callable[[], float],
        fresh: Callable[[Identities | None], MemoryStore],
        make: Make,
        now: Callable[[], str],
        gate: Gate | None = None,
    ) -> None:
        self._reactor = reactor
        self._fresh, self._make, self._now, self._gate = fresh, make, now, gate
        self._clock = clock
        self.behind: Sequence[Filter] = ()
        self._clusters: dict[str, LogicalCluster] = {}
        self._snapshots = Snapshots(self.snapshot)
        self._ticker = Repeated(self._tick, reactor, "looking after logical clusters")
        self._ticks = 0
        self._woken = 0  # since somebody last looked whether there are too many

    def __len__(self) -> int:
        return len(self._clusters)

    # -- life

    def start(self) -> None:
        self._ticker.start(1.0)

    async def stop(self) -> None:
        self._ticker.stop()
        for name in list(self._clusters):
            await self.remove(name)

    def create(
        self, name: str, snapshot: Snapshot | None = None, identities: Identities | None = None
    ) -> LogicalCluster:
        """A fresh one, or a fork of a snapshot.  Raises TooManyRequests; the name must be free."""
        if len(self._clusters) >= MAX_CLUSTERS:
            raise status.too_many_requests(f"there are {MAX_CLUSTERS} logical clusters", 1)
        store = self._fresh(identities) if snapshot is None else MemoryStore(None, self._clock, snapshot=snapshot)
        clock = MovedClock(self._reactor, self._clock)
        made = LogicalCluster(name, store, self._now(), self._wake, clock, snapshot is not None, self._gate, identities)
        self._clusters[name] = made
        return made

    def _wake(self, store: MemoryStore, clock: MovedClock, identities: Identities | None) -> Served:
        self._woken += 1
        if self._woken >= _WAKES_PER_LOOK:
            self._put_to_sleep()
        return self._make(store, clock, identities)

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
        await cluster.remove()
        return True

    def _tick(self) -> Deferred[None] | None:
        self._ticks += 1
        for cluster in list(self._clusters.values()):
            if cluster.served is not None:
                try:
                    cluster.served.tick()
                except Exception:  # of this one; the next second comes nevertheless
                    log.failure("bookmarks of the logical cluster {name} failed", name=cluster.name)
        self._put_to_sleep()
        if self._ticks % INTERVAL == 0:
            return Deferred.fromCoroutine(self._sweep())
        return None

    def _put_to_sleep(self) -> None:
        """Those sleep that nobody has asked for long, and when there are many, those that were not asked for longest."""
        self._woken = 0
        idle = [cluster for cluster in self._clusters.values() if cluster.served is not None and not cluster.requests]
        idle.sort(key=_asked)
        too_many = len(idle) - MAX_AWAKE
        now = self._reactor.seconds()
        for position, cluster in enumerate(idle[:_MAX_SLEEPS_PER_TURN]):
            if position >= too_many and now - cluster.asked < IDLE:
                break
            cluster.sleep()

    async def _sweep(self) -> None:
        for cluster in list(self._clusters.values()):
            if cluster.store.expiring:
                try:
                    await Sweeper(cluster.store, None, cluster.clock.time).sweep()
                except Exception:
                    log.failure("sweeping the logical cluster {name} failed", name=cluster.name)

    # -- requests

    def around(self, handler: Handler, behind: Sequence[Filter] = ()) -> Handler:
        """What answers requests, those of logical clusters among them, which pass the filters ``behind`` last."""
        self.behind = behind

        def handle(ctx: RequestContext) -> Response | Awaitable[Response]:
            if ctx.path.startswith(_PREFIX):
                name, slash, rest = ctx.path[len(_PREFIX) :].partition("/")
                cluster = self._clusters.get(name)
                head = f"{_PREFIX}{name}".encode()
                if cluster is not None and slash and ctx.http.uri.startswith(head + b"/"):
                    ctx.path = "/" + rest
                    ctx.http.uri = ctx.http.uri[len(head) :]
                    ctx.annotations[ANNOTATION] = name
                    if ctx.method == "PATCH":
                        ctx.annotations[CONTENT_TYPE] = ctx.header("content-type") or ""
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
        require_masters(ctx, "logical clusters are for members of system:masters")
        name = ctx.path[len(_PREFIX) :]
        if not name:
            return self._answer_all(ctx)
        if "/" in name:
            raise _not_found(name.partition("/")[0])
        if ctx.method == "PUT":
            found = self._clusters.get(name)
            if found is None:
                return _json(201, self._create(name, raw_body(ctx)).record())
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
        return _json(201, self._create(name, body).record())

    def _create(self, name: str, body: bytes) -> LogicalCluster:
        """``from`` is the snapshot that it begins with; by ``seed`` its uids and generated names come out the same each time."""
        snapshot, seed = _field_of(body, "from"), _field_of(body, "seed")
        problems = names.dns_label(name)
        if problems:
            raise status.bad_request(f"{quote(name)} is no name of a logical cluster: {'; '.join(problems)}")
        if len(seed) > MAX_SEED:
            raise status.bad_request(f"seed: at most {MAX_SEED} characters")
        # what a fork makes is something else than what was made where it comes from
        identities = Identities(seed, origin=snapshot) if seed else None
        return self.create(name, self._snapshots.get(snapshot) if snapshot else None, identities)

    async def _reset(self, cluster: LogicalCluster, snapshot: Snapshot) -> Response:
        await cluster.reset(snapshot)
        return _json(200, cluster.record())

    async def _remove(self, clusters: list[LogicalCluster]) -> Response:
        for cluster in clusters:
            if self._clusters.get(cluster.name) is cluster:
                awake = cluster.served is not None
                await self.remove(cluster.name)
                if awake:
                    await deferLater(self._reactor, 0)  # others have their turn
        return _json(200, {"clusters": [cluster.record() for cluster in clusters]})


def _not_found(name: str) -> status.StatusError:
    return status.NotFound(f"there is no logical cluster {quote(name)}")


def _field_of(body: bytes, name: str) -> str:
    """Of a request's object; "" when it has none.  Raises BadRequest."""
    try:
        found = (orjson.loads(body) if body else {}).get(name, "")
    except (ValueError, AttributeError):
        raise status.bad_request('expected {"name": "...", "from": "...", "seed": "..."}') from None
    if not isinstance(found, str):
        raise status.bad_request(f"{name}: must be a string")
    return found


def _json(code: int, tree: Object) -> Response:
    return Response(code, orjson.dumps(tree))
