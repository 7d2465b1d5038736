"""Elects leaders from LeaseCandidates (KEP-4355; upstream: ``pkg/controlplane/controller/leaderelection``).

Pure functions decide the next step of an election from the Lease and its candidates.  Their times are unix seconds, and RFC 3339
with microseconds in objects.  The controller follows Leases and LeaseCandidates, pings candidates, and writes the elected leader.
Which of several servers runs the controller is decided by ``kapi.controllers.leaderelection``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.cel.library.semver import Semver, parse
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.time import seconds_of, stamp_micros
from kapi.machinery.tree import Object
from kapi.process.driver import trap_cancelled
from kapi.runtime.interface import Client
from kapi.runtime.sliced import begin
from kapi.runtime.workqueue import WorkQueue

CONTROLLER = "leader-election-controller"
OLDEST_EMULATION_VERSION = "OldestEmulationVersion"
ANSWER_SECONDS = 5.0  # time in which candidates must answer a ping
RECHECK_SECONDS = 5.0  # between two checks of a Lease with a holder
CANDIDATE_SECONDS = 1800.0  # time without renewal after which a candidate has expired
_LEASE_SECONDS = 5  # time in which the elected candidate must renew the Lease
Key = tuple[str, str]  # namespace and name of a Lease
GROUP = "coordination.k8s.io"
CANDIDATES = "leasecandidates"
_COLLECTION_SECONDS = 1800.0  # between two searches for expired candidates


class Step(NamedTuple):
    """The objects to write, and the seconds until the next check (None: when something changes)."""

    candidates: Sequence[Object] = ()
    lease: Object | None = None  # without a resourceVersion it must be created
    again: float | None = None


def lease_of(candidate: Object) -> str:
    name: str = (candidate.get("spec") or {}).get("leaseName") or ""
    return name


def candidate_expired(candidate: Object, now: float) -> bool:
    renewed = (candidate.get("spec") or {}).get("renewTime")
    return not renewed or seconds_of(renewed) + CANDIDATE_SECONDS < now


def lease_expired(lease: Object, now: float) -> bool:
    spec = lease.get("spec") or {}
    renewed, seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds")
    return not renewed or seconds is None or seconds_of(renewed) + seconds < now


def strategy_of(candidates: Sequence[Object]) -> str:
    """The strategy of the candidates with the newest binary version; "" if they do not agree."""
    newest = max(_order(one, "binaryVersion") for one in candidates)
    named = {one["spec"].get("strategy") or "" for one in candidates if _order(one, "binaryVersion") == newest}
    return named.pop() if len(named) == 1 else ""


def best(candidates: Sequence[Object]) -> Object | None:
    """The candidate with the oldest emulation version, the oldest binary version, the earliest creation."""
    valid = [one for one in candidates if _version(one, "emulationVersion") and _version(one, "binaryVersion")]
    return min(
        valid,
        key=lambda one: (
            _order(one, "emulationVersion"),
            _order(one, "binaryVersion"),
            one["metadata"].get("creationTimestamp") or "",
        ),
        default=None,
    )


def _version(candidate: Object, field: str) -> Semver | None:
    try:
        return parse(candidate["spec"].get(field) or "")
    except ValueError:
        return None


def _order(candidate: Object, field: str) -> tuple[object, ...]:
    version = _version(candidate, field) or Semver(0, 0, 0, ())
    return version.order()


def next_step(
    namespace: str, name: str, lease: Object | None, candidates: Sequence[Object], now: float, stamp: str
) -> Step:
    """``candidates``: the Lease's candidates that have not expired; ``stamp``: ``now`` as text."""
    if not candidates:
        return Step()
    if lease is not None and not _needed(lease, candidates, now):
        return Step(again=RECHECK_SECONDS)
    asked, waiting = [], False
    for one in candidates:
        renewed, pinged = _seconds(one, "renewTime"), _seconds(one, "pingTime")
        if renewed < pinged and pinged + ANSWER_SECONDS > now:
            waiting = True
        elif renewed + ANSWER_SECONDS <= now and (not pinged or pinged + ANSWER_SECONDS < now and pinged <= renewed):
            asked.append({**one, "spec": {**one["spec"], "pingTime": stamp}})
    if asked or waiting:
        return Step(asked, again=RECHECK_SECONDS)
    answered = [one for one in candidates if _seconds(one, "renewTime") + ANSWER_SECONDS > now]
    strategy = strategy_of(answered) if answered else ""
    if not strategy:
        return Step(again=RECHECK_SECONDS)
    if strategy == OLDEST_EMULATION_VERSION:
        chosen = best(answered)
        if chosen is None:
            return Step(again=RECHECK_SECONDS)
        written = _elected(namespace, name, lease, chosen["metadata"]["name"], strategy, now, stamp)
    elif lease is None:
        written = _made(
            namespace, name, {"leaseDurationSeconds": _LEASE_SECONDS, "renewTime": stamp, "strategy": strategy}
        )
    else:  # the controller for this strategy chooses the holder
        written = {**lease, "spec": {**(lease.get("spec") or {}), "strategy": strategy}}
    return Step((), None if written == lease else written, RECHECK_SECONDS)


def _needed(lease: Object, candidates: Sequence[Object], now: float) -> bool:
    holder = (lease.get("spec") or {}).get("holderIdentity")
    if not holder or lease_expired(lease, now):
        return True
    if any(_seconds(one, "renewTime") + CANDIDATE_SECONDS / 2 < now for one in candidates):
        return True  # the election asks the candidates to renew before they expire
    chosen = best(candidates) if strategy_of(candidates) == OLDEST_EMULATION_VERSION else None
    return chosen is not None and chosen["metadata"]["name"] != holder


def _elected(
    namespace: str, name: str, lease: Object | None, chosen: str, strategy: str, now: float, stamp: str
) -> Object:
    """The Lease of the chosen candidate; a Lease with a holder gets a preferred holder."""
    mine = {"holderIdentity": chosen, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": stamp, "strategy": strategy}
    if lease is None:
        return _made(namespace, name, mine)
    spec: Object = {**(lease.get("spec") or {}), "strategy": strategy}
    holder = spec.get("holderIdentity")
    if holder and (holder == chosen or not lease_expired(lease, now)):
        if holder != chosen:
            spec["preferredHolder"] = chosen
        return {**lease, "spec": spec}
    spec.update(mine)
    for field in ("preferredHolder", "acquireTime"):
        spec.pop(field, None)
    return {**lease, "spec": spec}


def _made(namespace: str, name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _seconds(candidate: Object, field: str) -> float:
    """A time of a candidate; 0 without it."""
    stamp = candidate["spec"].get(field)
    return seconds_of(stamp) if stamp else 0.0


class CoordinatedElection:
    """``clock`` returns unix seconds."""

    name = "start-kube-apiserver-coordinated-leader-election-controller"
    log = Logger()

    def __init__(self, client: Client, reactor: IReactorTime, clock: Callable[[], float]) -> None:
        self._leases = client.resource(GROUP, "leases")
        self._candidates = client.resource(GROUP, CANDIDATES)
        self._clock = clock
        self._named: dict[Key, set[str]] = {}  # the candidates of a Lease
        self._queue: WorkQueue[Key] = WorkQueue(reactor, self.name, self._handle)
        self._expired: WorkQueue[Key] = WorkQueue(reactor, "leasecandidate-gc", self._collect)
        self._reactor = reactor
        self._collection: Deferred[None] | None = None
        self._stops: list[Callable[[], None]] = []

    async def start(self) -> None:
        self._stops = [self._candidates.watch(self._candidate), self._leases.watch(self._lease)]
        self._collection = begin(self._reactor, self._find_expired())
        self._collection.addErrback(trap_cancelled)

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        if self._collection is not None:
            self._collection.cancel()
        self._queue.stop()
        self._expired.stop()

    def _candidate(self, event: str, obj: Object, old: Object | None) -> None:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        key = (namespace, lease_of(obj))
        if event != "DELETED":
            self._named.setdefault(key, set()).add(name)
        elif key in self._named:
            self._named[key].discard(name)
            if not self._named[key]:
                del self._named[key]
        self._queue.add(key)

    def _lease(self, event: str, obj: Object, old: Object | None) -> None:
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        if key in self._named:
            self._queue.add(key)

    async def _handle(self, key: Key) -> float | None:
        namespace, name = key
        now = self._clock()
        found = (self._candidates.lister.get(namespace, one) for one in sorted(self._named.get(key, ())))
        candidates = [one for one in found if one is not None and not candidate_expired(one, now)]
        lease = self._leases.lister.get(namespace, name)
        step = next_step(namespace, name, lease, candidates, now, stamp_micros(now))
        for candidate in step.candidates:
            try:
                await self._candidates.update(candidate, namespace)
            except (status.Conflict, status.NotFound) as error:  # the candidate has just renewed
                self.log.info("leader election of {lease}: {error}", lease=name, error=error.message)
        if step.lease is not None:
            spec = step.lease["spec"]
            chosen = spec.get("preferredHolder") or spec.get("holderIdentity") or "nobody"
            if lease is None:
                await self._leases.create(step.lease, namespace)
            else:
                await self._leases.update(step.lease, namespace)
            self.log.info("leader election of {lease}: {chosen} is elected", lease=name, chosen=chosen)
        return step.again

    async def _find_expired(self) -> None:
        while True:
            now = self._clock()
            for candidate in elements(self._candidates.lister.list()):
                if candidate_expired(candidate, now):
                    self._expired.add((candidate["metadata"]["namespace"], candidate["metadata"]["name"]))
            await deferLater(self._reactor, _COLLECTION_SECONDS)

    async def _collect(self, key: Key) -> float | None:
        namespace, name = key
        candidate = self._candidates.lister.get(namespace, name)
        if candidate is None or not candidate_expired(candidate, self._clock()):
            return None
        metadata = candidate["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        try:
            await self._candidates.delete(name, namespace, {"preconditions": preconditions})
        except (status.NotFound, status.Conflict):
            pass
        return None
