"""API priority and fairness: classifies requests and keeps the levels' limits (KEP-1040).

Upstream: ``util/flowcontrol/apf_controller.go``.

Configured by the FlowSchema and PriorityLevelConfiguration objects as they are in the watch cache; what is mandatory
works even when the objects are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.client.interface import Client
from kapi.flowcontrol import bootstrap
from kapi.flowcontrol.allocation import Claim, allocate, half_up
from kapi.flowcontrol.bootstrap import GROUP
from kapi.flowcontrol.estimator import Work
from kapi.flowcontrol.level import PriorityLevel
from kapi.flowcontrol.matching import Matcher, distinguisher, flow_of, schema_matcher
from kapi.flowcontrol.metrics import Meter
from kapi.flowcontrol.queue import Request
from kapi.flowcontrol.sharding import flow_hash
from kapi.flowcontrol.tally import Tally
from kapi.machinery.tree import Object
from kapi.request.flow import Flow
from kapi.request.info import RequestInfo
from kapi.request.repeated import Repeated
from kapi.request.user import UserInfo
from kapi.scheduling.thread_scheduler import ThreadScheduler

log = Logger()

SCHEMA_UID = b"X-Kubernetes-PF-FlowSchema-UID"
LEVEL_UID = b"X-Kubernetes-PF-PriorityLevel-UID"
ADJUST_EVERY = 10.0  # seconds
_CACHE_SIZE = 10_000  # classifications
#: characters of what they are remembered by, all together: paths and groups may be long
_MAX_CACHED_LENGTH = 4 * 1024 * 1024
_READS = frozenset({"get", "list", "watch", "head", "options"})


class Schema(NamedTuple):
    """A FlowSchema, compiled."""

    name: str
    uid: str
    method: str
    matches: Matcher
    level: PriorityLevel


class Classification(NamedTuple):
    """What requests of one user, verb and resource have in common."""

    schema: Schema
    level: PriorityLevel
    flow: str
    entropy: int  # hash of schema and flow: which queues are dealt
    headers: tuple[tuple[bytes, bytes], ...]  # of the answer
    tally: Tally
    time: Flow  # for whom the thread works


class FlowController:
    """``total`` is the server's concurrency in seats: --max-requests-inflight and its mutating counterpart together."""

    def __init__(
        self, reactor: IReactorTime, total: int, meter: Meter, scheduler: ThreadScheduler | None = None
    ) -> None:
        self.total = total
        self.meter = meter
        self.levels: dict[str, PriorityLevel] = {}
        self.schemas: list[Schema] = []
        self.fair_fraction = 0.0
        self._reactor = reactor
        self.scheduler = scheduler
        self._schema_objects: dict[str, Object] = {}
        self._matchers: dict[str, Matcher] = {}  # of these
        self._level_objects: dict[str, Object] = {}
        self._scheduled = False
        self._known: dict[object, Classification] = {}
        self._known_length = 0  # characters
        self._flows: WeakValueDictionary[tuple[object, ...], Flow] = WeakValueDictionary()
        self._nominal_sum = 0
        self._stops: list[Callable[[], None]] = []
        self._adjusting = Repeated(self.adjust, reactor, "lending seats between priority levels")
        meter.controller = self
        self.configure()

    def start(self, client: Client) -> None:
        """Follows the configuration, and begins to lend and borrow."""
        self._stops = [
            client.resource(GROUP, "prioritylevelconfigurations").watch(self.level_changed),
            client.resource(GROUP, "flowschemas").watch(self.schema_changed),
        ]
        self._adjusting.start(ADJUST_EVERY)

    def seconds(self) -> float:
        """The clock that requests are timed with."""
        return float(self._reactor.seconds())

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        self._adjusting.stop()

    # -- configuration

    def schema_changed(self, kind: str, obj: Object, old: Object | None = None) -> None:
        """A watch event of FlowSchemas.  A large one comes in slices: what its rules are made ready for is done here."""
        name = obj["metadata"]["name"]
        if kind == "DELETED":
            self._matchers.pop(name, None)
        else:
            self._matchers[name] = schema_matcher(obj["spec"])
        self._changed(self._schema_objects, kind, obj)

    def level_changed(self, kind: str, obj: Object, old: Object | None = None) -> None:
        """A watch event of PriorityLevelConfigurations."""
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
        """Makes schemas and levels of the objects there are."""
        self._scheduled = False
        self._forget()
        wanted = {obj["metadata"]["name"]: obj for obj in bootstrap.levels(mandatory=True)} | self._level_objects
        good: set[str] = set()
        for name, obj in wanted.items():
            level = self.levels.get(name) or self._new_level(name)
            if level.configure(obj):
                self.levels[name] = level
                good.add(name)
            else:
                log.error("PriorityLevelConfiguration {name} is broken and ignored", name=name)
        for name in [name for name in self.levels if name not in good]:
            if self.levels[name].queues.idle:
                del self.levels[name]
            else:
                self.levels[name].retiring = True
        mandatory = bootstrap.schemas(mandatory=True)
        objects = {obj["metadata"]["name"]: obj for obj in mandatory} | self._schema_objects
        ordered = sorted(
            objects.values(), key=lambda obj: (obj["spec"].get("matchingPrecedence", 0), obj["metadata"]["name"])
        )
        self.schemas = [schema for obj in ordered if (schema := self._schema(obj, good)) is not None]
        shares = sum(level.shares for level in self.levels.values())
        for level in self.levels.values():
            level.share_out(self.total, shares)
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
        method = distinguisher(spec)
        matches = self._matchers.get(metadata["name"]) or schema_matcher(spec)  # a mandatory one may not be stored yet
        return Schema(metadata["name"], metadata.get("uid", ""), method, matches, self.levels[level])

    # -- limits

    def adjust(self) -> None:
        """Lends what is not needed to those who could use it."""
        self._limit(sample=True)
        for name in [name for name, level in self.levels.items() if level.retiring and level.queues.idle]:
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

    def classify(self, info: RequestInfo, user: UserInfo) -> Classification:
        """The first schema that matches; the catch-all matches everybody."""
        if info.is_resource:
            key: tuple[object, ...] = (
                user.name,
                user.groups,
                info.verb,
                info.group,
                info.resource,
                info.subresource,
                info.namespace,
            )
        else:
            key = (user.name, user.groups, info.verb, info.path)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _CACHE_SIZE or self._known_length > _MAX_CACHED_LENGTH:
                self._forget()
            known = self._known[key] = self._classified(info, user)
            self._known_length += len(user.name) + sum(map(len, user.groups)) + len(info.path)
        return known

    def _forget(self) -> None:
        self._known.clear()
        self._known_length = 0

    def _classified(self, info: RequestInfo, user: UserInfo) -> Classification:
        schema = next((schema for schema in self.schemas if schema.matches(info, user)), None)
        if schema is None:
            schema = next(schema for schema in self.schemas if schema.name == "catch-all")
        flow = flow_of(schema.method, info, user)
        headers = ((SCHEMA_UID, schema.uid.encode()), (LEVEL_UID, schema.level.uid.encode()))
        tally = self.meter.tally(schema.level.name, schema.name)
        time = self._flow(schema, flow, info, user)
        return Classification(schema, schema.level, flow, flow_hash(schema.name, flow), headers, tally, time)

    def _flow(self, schema: Schema, flow: str, info: RequestInfo, user: UserInfo) -> Flow:
        """For whom the thread works: who is exempt is told apart all the same, and nobody's reads hold up his writes."""
        level = schema.level
        key = (level.share, schema.name, user.name if level.exempt else flow, info.verb in _READS)
        found = self._flows.get(key)
        if found is None:
            found = self._flows[key] = Flow(level.share)
        return found

    def request(
        self, chosen: Classification, work: Work, info: RequestInfo | None = None, user: UserInfo | None = None
    ) -> Request:
        """A request to be admitted by the level's queues."""
        seats, final_seats, extra = work
        request = Request(chosen.schema.name, chosen.entropy, seats, final_seats, extra, chosen.flow, user, info)
        request.tally = chosen.tally
        request.queues = chosen.level.queues
        if request.width == 1:
            chosen.tally.estimated += 1
        else:
            self.meter.estimated(chosen.level.name, chosen.schema.name, request.width)
        return request
