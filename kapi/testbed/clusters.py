"""Logical clusters: below ``/clusters/NAME`` there is a separate API server, in the same process.

Upstream has nothing like it; the paths follow kcp's logical clusters.  Only with ``--enable-logical-clusters``;
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

from kapi.authorization.forbidden import require_masters
from kapi.endpoints.body import raw_body
from kapi.filters.chain import Filter, Handler
from kapi.machinery import names, status
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object
from kapi.process.timers import Repeated
from kapi.registry.environment import MAX_SEED_LENGTH, Identities
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.routing import Answer, Routes
from kapi.store.memory import MemoryStore, Snapshot
from kapi.store.sweeper import INTERVAL_SECONDS, Sweeper
from kapi.testbed.logical_cluster import Gate, LogicalCluster, Make, Served
from kapi.testbed.moved_clock import MovedClock
from kapi.testbed.snapshots import Snapshots

log = Logger()

PATH = "/clusters"
MAX_CLUSTERS = 20_000
MAX_AWAKE = 200  # clusters without requests or watches that stay awake
IDLE_SECONDS = 60.0  # a cluster falls asleep after this time without a request
ANNOTATION = "kapi/cluster"  # of audit events
CONTENT_TYPE = "kapi/content-type"  # of audit events of patches: needed to repeat a patch
_WAKES_PER_LOOK = 5  # after this number of wakes the number of awake clusters is checked
_MAX_SLEEPS_PER_TURN = 10  # each takes milliseconds
_PREFIX = PATH + "/"
_last_request = attrgetter("last_request")


class Clusters:
    """All logical clusters of a server.

    ``fresh`` makes a new cluster's store, ``make`` its server; ``now`` is the time as an RFC 3339 text.  ``gate`` decides whether
    a request may wake a cluster.
    """

    app = Routes()

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
        self.snapshots = Snapshots(self.snapshot)
        self._ticker = Repeated(self._tick, reactor, "looking after logical clusters")
        self._ticks = 0
        self._woken = 0  # since the number of awake clusters was last checked

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
        """Creates a new cluster, or a fork of a snapshot.  The name must be free.  Raises TooManyRequests."""
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
        """Removes a cluster with its objects, and ends its watches.  Returns False when it does not exist."""
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
                except Exception:  # an error of one cluster must not affect the others
                    log.failure("bookmarks of the logical cluster {name} failed", name=cluster.name)
        self._put_to_sleep()
        if self._ticks % INTERVAL_SECONDS == 0:
            return Deferred.fromCoroutine(self._sweep())
        return None

    def _put_to_sleep(self) -> None:
        """Puts idle clusters to sleep; when too many are awake, also those whose last request is the oldest."""
        self._woken = 0
        idle = [cluster for cluster in self._clusters.values() if cluster.served is not None and not cluster.requests]
        idle.sort(key=_last_request)
        too_many = len(idle) - MAX_AWAKE
        now = self._reactor.seconds()
        for position, cluster in enumerate(idle[:_MAX_SLEEPS_PER_TURN]):
            if position >= too_many and now - cluster.last_request < IDLE_SECONDS:
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
        """Wraps ``handler``; requests to logical clusters are answered here, and pass the filters ``behind`` last."""
        self.behind = behind

        def handle(ctx: RequestContext) -> Response | Awaitable[Response]:
            if ctx.path.startswith(_PREFIX):
                name, slash, rest = ctx.path[len(_PREFIX) :].partition("/")
                cluster = self._clusters.get(name)
                head = f"{_PREFIX}{name}".encode()
                if cluster is not None and slash and ctx.http.uri.startswith(head + b"/"):
                    ctx.path = "/" + rest
                    ctx.http.uri = ctx.http.uri[len(head) :]
                    ctx.cluster = ctx.annotations[ANNOTATION] = name
                    if ctx.method == "PATCH":
                        ctx.annotations[CONTENT_TYPE] = ctx.header("content-type") or ""
                    return cluster.handle(ctx)
            return handler(ctx)

        return handle

    @app.route(PATH, branch=True, listed=False)
    def answer(self, ctx: RequestContext) -> Answer:
        """Answers ``/clusters`` and ``/clusters/NAME``.  Raises StatusError."""
        require_masters(ctx.user, "logical clusters are for members of system:masters")
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
            return self._reset(cluster, self.snapshots.get(_field_of(raw_body(ctx), "from")))
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
        """Creates a cluster, from the snapshot ``from`` if given; ``seed`` makes uids and generated names reproducible."""
        snapshot, seed = _field_of(body, "from"), _field_of(body, "seed")
        problems = names.dns_label(name)
        if problems:
            raise status.bad_request(f"{quote(name)} is no name of a logical cluster: {'; '.join(problems)}")
        if len(seed) > MAX_SEED_LENGTH:
            raise status.bad_request(f"seed: at most {MAX_SEED_LENGTH} characters")
        # a fork must not generate the same uids as the cluster of its snapshot
        identities = Identities(seed, origin=snapshot) if seed else None
        return self.create(name, self.snapshots.get(snapshot) if snapshot else None, identities)

    async def _reset(self, cluster: LogicalCluster, snapshot: Snapshot) -> Response:
        await cluster.reset(snapshot)
        return _json(200, cluster.record())

    async def _remove(self, clusters: list[LogicalCluster]) -> Response:
        for cluster in clusters:
            if self._clusters.get(cluster.name) is cluster:
                awake = cluster.served is not None
                await self.remove(cluster.name)
                if awake:
                    await deferLater(self._reactor, 0)  # let other requests run
        return _json(200, {"clusters": [cluster.record() for cluster in clusters]})


def _not_found(name: str) -> status.StatusError:
    return status.NotFound(f"there is no logical cluster {quote(name)}")


def _field_of(body: bytes, name: str) -> str:
    """A string field of the body's JSON object; "" when it is missing.  Raises BadRequest."""
    try:
        found = (orjson.loads(body) if body else {}).get(name, "")
    except (ValueError, AttributeError):
        raise status.bad_request('expected {"name": "...", "from": "...", "seed": "..."}') from None
    if not isinstance(found, str):
        raise status.bad_request(f"{name}: must be a string")
    return found


def _json(code: int, tree: Object) -> Response:
    return Response(code, orjson.dumps(tree))
