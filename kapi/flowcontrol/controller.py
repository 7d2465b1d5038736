"""API priority and fairness: classifies requests and keeps the levels' limits (KEP-1040).

Upstream: ``util/flowcontrol/apf_controller.go``, ``apis/flowcontrol/bootstrap``.

It follows the FlowSchema and PriorityLevelConfiguration objects in the watch cache.  The mandatory ones apply even while their
objects are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.flowcontrol.estimator import WorkEstimate
from kapi.flowcontrol.fair_queues import flow_hash
from kapi.flowcontrol.level import Claim, PriorityLevel, allocate, half_up
from kapi.flowcontrol.matching import Matcher, distinguisher_method, flow_distinguisher, schema_matcher
from kapi.flowcontrol.metrics import Meter
from kapi.flowcontrol.queue import Request, Tally
from kapi.machinery.tree import Object
from kapi.process.shares import Flow
from kapi.process.timers import Repeated
from kapi.process.turn import Turn
from kapi.request.info import RequestInfo
from kapi.request.user import UserInfo, is_tenant
from kapi.resources.flowcontrol import bootstrap
from kapi.resources.flowcontrol import bootstrap as must
from kapi.runtime.interface import Client

GROUP = "flowcontrol.apiserver.k8s.io"
log = Logger()
SCHEMA_UID = b"X-Kubernetes-PF-FlowSchema-UID"
LEVEL_UID = b"X-Kubernetes-PF-PriorityLevel-UID"
ADJUSTMENT_SECONDS = 10.0
_CACHE_SIZE = 10_000  # classifications
#: characters of all cache keys together: paths and groups may be long
_MAX_CACHED_LENGTH = 4 * 1024 * 1024
_READS = frozenset({"get", "list", "watch", "head", "options"})


def _objects(kind: str, specs: dict[str, Object]) -> list[Object]:
    return [
        {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for name, spec in specs.items()
    ]


def levels(*, mandatory: bool) -> list[Object]:
    """PriorityLevelConfiguration objects."""
    specs = must.PRIORITY_LEVELS if mandatory else bootstrap.SUGGESTED_PRIORITY_LEVELS
    return _objects("PriorityLevelConfiguration", specs)


def schemas(*, mandatory: bool) -> list[Object]:
    """FlowSchema objects."""
    return _objects("FlowSchema", must.FLOW_SCHEMAS if mandatory else bootstrap.SUGGESTED_FLOW_SCHEMAS)


class Schema(NamedTuple):
    """A FlowSchema, compiled."""

    name: str
    uid: str
    method: str
    matches: Matcher
    level: PriorityLevel


class Classification(NamedTuple):
    """The schema, level and flow of requests of one user, verb and resource."""

    schema: Schema
    level: PriorityLevel
    distinguisher: str  # the flow distinguisher: a user name, a namespace or ""
    flow_hash: int  # hash of schema and distinguisher: selects the hand of queues
    headers: tuple[tuple[bytes, bytes], ...]  # headers of the answer
    tally: Tally
    flow: Flow  # the flow for which the thread's time is counted


class FlowController:
    """``total`` is the server's concurrency in seats: --max-requests-inflight and its mutating counterpart together."""

    def __init__(self, reactor: IReactorTime, total: int, meter: Meter, turn: Turn | None = None) -> None:
        self.total = total
        self.meter = meter
        self.levels: dict[str, PriorityLevel] = {}
        self.schemas: list[Schema] = []
        self.fair_fraction = 0.0
        self._reactor = reactor
        self.turn = turn
        self._schema_objects: dict[str, Object] = {}
        self._matchers: dict[str, Matcher] = {}  # matchers of these schemas
        self._level_objects: dict[str, Object] = {}
        self._scheduled = False
        self._cached: dict[object, Classification] = {}
        self._cached_length = 0  # characters
        self._flows: WeakValueDictionary[tuple[object, ...], Flow] = WeakValueDictionary()
        self._nominal_sum = 0
        self._stops: list[Callable[[], None]] = []
        self._adjusting = Repeated(self.adjust, reactor, "lending seats between priority levels")
        meter.controller = self
        self.configure()

    def start(self, client: Client) -> None:
        """Follows the configuration, and begins to lend and borrow seats."""
        self._stops = [
            client.resource(GROUP, "prioritylevelconfigurations").watch(self.level_changed),
            client.resource(GROUP, "flowschemas").watch(self.schema_changed),
        ]
        self._adjusting.start(ADJUSTMENT_SECONDS)

    def seconds(self) -> float:
        """The clock for the times of requests."""
        return float(self._reactor.seconds())

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        self._adjusting.stop()

    # -- configuration

    def schema_changed(self, kind: str, obj: Object, old: Object | None = None) -> None:
        """Handles a watch event of FlowSchemas.  Compiles the rules here: this runs in slices, ``configure`` does not."""
        name = obj["metadata"]["name"]
        if kind == "DELETED":
            self._matchers.pop(name, None)
        else:
            self._matchers[name] = schema_matcher(obj["spec"])
        self._changed(self._schema_objects, kind, obj)

    def level_changed(self, kind: str, obj: Object, old: Object | None = None) -> None:
        """Handles a watch event of PriorityLevelConfigurations."""
        self._changed(self._level_objects, kind, obj)

    def _changed(self, objects: dict[str, Object], kind: str, obj: Object) -> None:
        name = obj["metadata"]["name"]
        if kind == "DELETED":
            objects.pop(name, None)
        else:
            objects[name] = obj
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self.configure)

    def configure(self) -> None:
        """Builds schemas and levels from the current objects."""
        self._scheduled = False
        self._clear_cache()
        level_objects = {obj["metadata"]["name"]: obj for obj in levels(mandatory=True)} | self._level_objects
        valid: set[str] = set()
        for name, obj in level_objects.items():
            level = self.levels.get(name) or self._new_level(name)
            if level.configure(obj):
                self.levels[name] = level
                valid.add(name)
            else:
                log.error("PriorityLevelConfiguration {name} is broken and ignored", name=name)
        for name in [name for name in self.levels if name not in valid]:
            if self.levels[name].queues.idle:
                del self.levels[name]
            else:
                self.levels[name].quiescing = True
        mandatory = schemas(mandatory=True)
        objects = {obj["metadata"]["name"]: obj for obj in mandatory} | self._schema_objects
        ordered = sorted(
            objects.values(), key=lambda obj: (obj["spec"].get("matchingPrecedence", 0), obj["metadata"]["name"])
        )
        self.schemas = [schema for obj in ordered if (schema := self._schema(obj, valid)) is not None]
        shares = sum(level.shares for level in self.levels.values())
        for level in self.levels.values():
            level.set_nominal_limit(self.total, shares)
        self._nominal_sum = sum(level.nominal for level in self.levels.values())
        self._limit(sample=False)

    def _new_level(self, name: str) -> PriorityLevel:
        level = PriorityLevel(name, self._reactor)
        level.queues.on_waited = lambda request, seconds, executed: self.meter.waited(
            name, request.schema, seconds, executed
        )
        level.queues.on_executed = lambda request, seconds: self.meter.executed(name, request, seconds)
        level.queues.on_queued = lambda request, length: self.meter.queued(name, request.schema, length)
        return level

    def _schema(self, obj: Object, levels: set[str]) -> Schema | None:
        spec, metadata = obj["spec"], obj["metadata"]
        level = spec["priorityLevelConfiguration"]["name"]
        if level not in levels:
            return None
        method = distinguisher_method(spec)
        matches = self._matchers.get(metadata["name"]) or schema_matcher(spec)  # a mandatory one may not be stored yet
        return Schema(metadata["name"], metadata.get("uid", ""), method, matches, self.levels[level])

    # -- limits

    def adjust(self) -> None:
        """Lends the seats that some levels do not need to levels that could use them."""
        self._limit(sample=True)
        for name in [name for name, level in self.levels.items() if level.quiescing and level.queues.idle]:
            del self.levels[name]

    def _limit(self, *, sample: bool) -> None:
        rest = self._nominal_sum
        limited: list[PriorityLevel] = []
        lowest: list[int] = []
        for level in self.levels.values():
            if sample:
                level.queues.usage.sample(self._reactor.seconds())
            high = level.queues.usage.wanted.high
            if level.exempt:
                level.set_current(max(level.lower, high))
                rest -= level.current
            else:
                limited.append(level)
                lowest.append(max(level.lower, min(level.nominal, high)))
        for level, seats in zip(limited, self._divide(rest, limited, lowest), strict=True):
            if seats != level.current:
                level.set_current(seats)

    def _divide(self, rest: int, limited: Sequence[PriorityLevel], lowest: list[int]) -> list[int]:
        least, needed = sum(level.lower for level in limited), sum(lowest)
        if rest <= least:
            self.fair_fraction = 0.0
            return [level.lower for level in limited]
        if rest <= needed:
            self.fair_fraction = 0.0
            part = (rest - least) / (needed - least)
            return [
                level.lower + half_up((low - level.lower) * part) for level, low in zip(limited, lowest, strict=True)
            ]
        claims = [
            Claim(low, level.upper, max(low, level.queues.usage.wanted.smoothed))
            for level, low in zip(limited, lowest, strict=True)
        ]
        for level, claim in zip(limited, claims, strict=True):
            level.target = claim.target
        seats, self.fair_fraction = allocate(rest, claims)
        return [half_up(seat) for seat in seats]

    # -- requests

    def classify(self, info: RequestInfo, user: UserInfo, cluster: str = "") -> Classification:
        """The first schema that matches; the catch-all matches every request.

        The requests to a logical cluster are one flow of each schema.  Users of the cluster are never exempt
        (``kapi.request.user.tenant``).
        """
        if info.is_resource:
            key: tuple[object, ...] = (
                user.name,
                user.groups,
                info.verb,
                info.group,
                info.resource,
                info.subresource,
                info.namespace,
                cluster,
            )
        else:
            key = (user.name, user.groups, info.verb, info.path, cluster)
        known = self._cached.get(key)
        if known is None:
            if len(self._cached) >= _CACHE_SIZE or self._cached_length > _MAX_CACHED_LENGTH:
                self._clear_cache()
            known = self._cached[key] = self._classified(info, user, cluster)
            self._cached_length += len(user.name) + sum(map(len, user.groups)) + len(info.path)
        return known

    def _clear_cache(self) -> None:
        self._cached.clear()
        self._cached_length = 0

    def _classified(self, info: RequestInfo, user: UserInfo, cluster: str) -> Classification:
        tenant = is_tenant(user)
        schemas = (schema for schema in self.schemas if not (tenant and schema.level.exempt))
        schema = next((schema for schema in schemas if schema.matches(info, user)), None)
        if schema is None:
            schema = next(schema for schema in self.schemas if schema.name == "catch-all")
        distinguisher = f"/clusters/{cluster}" if cluster else flow_distinguisher(schema.method, info, user)
        headers = ((SCHEMA_UID, schema.uid.encode()), (LEVEL_UID, schema.level.uid.encode()))
        tally = self.meter.tally(schema.level.name, schema.name)
        flow = self._flow(schema, distinguisher, info, user)
        hashed = flow_hash(schema.name, distinguisher)
        return Classification(schema, schema.level, distinguisher, hashed, headers, tally, flow)

    def _flow(self, schema: Schema, distinguisher: str, info: RequestInfo, user: UserInfo) -> Flow:
        """The flow for which the thread's time is counted.

        Users of an exempt level have separate flows too.  A user's reads and writes are separate flows, so that a user's
        writes do not wait for the user's lists.
        """
        level = schema.level
        key = (level.thread_level, schema.name, user.name if level.exempt else distinguisher, info.verb in _READS)
        found = self._flows.get(key)
        if found is None:
            found = self._flows[key] = Flow(level.thread_level)
        return found

    def request(
        self, chosen: Classification, work: WorkEstimate, info: RequestInfo | None = None, user: UserInfo | None = None
    ) -> Request:
        """Makes the request that the level's queues admit."""
        seats, final_seats, latency = work
        request = Request(
            chosen.schema.name, chosen.flow_hash, seats, final_seats, latency, chosen.distinguisher, user, info
        )
        request.tally = chosen.tally
        request.queues = chosen.level.queues
        if request.max_seats == 1:
            chosen.tally.estimated += 1
        else:
            self.meter.estimated(chosen.level.name, chosen.schema.name, request.max_seats)
        return request
