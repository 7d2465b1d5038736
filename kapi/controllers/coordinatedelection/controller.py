"""Follows Leases and LeaseCandidates, pings candidates, and writes the elected one (KEP-4355)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.controllers.coordinatedelection.reconcile import candidate_expired, is_elected, lease_of, next_step
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.time import stamp_micros
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.sliced import begin
from kapi.runtime.workqueue import WorkQueue

Key = tuple[str, str]  # namespace and name of a Lease
GROUP = "coordination.k8s.io"
CANDIDATES = "leasecandidates"
_COLLECTION_SECONDS = 1800.0  # between two searches for expired candidates


class CoordinatedElection:
    """``clock`` gives unix seconds."""

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
        self._collection.addErrback(lambda failure: failure.trap(CancelledError) and None)

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
        if key in self._named or is_elected(obj):
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
            except (status.Conflict, status.NotFound) as error:  # its answer to the ping has changed it
                self.log.info("leader election of {lease}: {error}", lease=name, error=error.message)
        if step.lease is not None:
            chosen = step.lease["spec"].get("preferredHolder") or step.lease["spec"]["holderIdentity"]
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
