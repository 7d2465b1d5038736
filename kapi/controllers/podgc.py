"""Deletes unneeded pods: too many terminated pods, pods of nodes that are deleted or out of service, pods that never ran.

Every 20 seconds the controller checks the changed pods, and the pods that may have to be deleted.  For each pod it only stores
whether, and for which reason, it may have to be deleted, from a few fields of the stored bytes.
Upstream: ``pkg/controller/podgc``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from sys import intern

import msgspec
from twisted.internet.defer import CancelledError, Deferred, execute
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.process.driver import Call, trap_cancelled
from kapi.runtime.interface import Client
from kapi.runtime.sliced import begin
from kapi.store.errors import Compacted
from kapi.watchcache.cache import Cache
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import DELETED
from kapi.watchcache.unreadable import Unreadable

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
QUARANTINE = 40.0  # seconds for which a node must be missing
EVERY = 20.0  # seconds
THRESHOLD = 12_500  # the most terminated pods that stay


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str | None = None


class _Status(msgspec.Struct, gc=False):
    phase: str | None = None
    reason: str | None = None


class Pod(msgspec.Struct, gc=False):
    """The needed fields of a pod."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def node(self) -> str:
        return self.spec.node_name or ""

    @property
    def has_ended(self) -> bool:
        return self.status.phase not in ("Pending", "Running", "Unknown")

    @property
    def is_evicted(self) -> bool:
        return self.status.phase == "Failed" and self.status.reason == "Evicted"


#: decodes a Pod; raises msgspec.DecodeError
pod_of = msgspec.json.Decoder(Pod).decode


class Decision(msgspec.Struct, gc=False):
    pod: Pod
    disruption: bool = False  # a condition says that its node is deleted


def chosen(pods: Iterable[Pod], nodes: Mapping[str, Object], gone: Iterable[str], threshold: int) -> list[Decision]:
    """``gone`` are nodes that were missing for long enough; ``threshold`` is the number of terminated pods that may stay."""
    missing = frozenset(gone)
    ended: list[Pod] = []
    decisions: list[Decision] = []
    for pod in elements(pods):
        going = pod.metadata.deletion_timestamp is not None
        node = nodes.get(pod.node) if pod.node else None
        if going and node is not None and is_out_of_service(node):
            decisions.append(Decision(pod))
        elif pod.node in missing:
            decisions.append(Decision(pod, disruption=True))
        elif going and not pod.node:
            decisions.append(Decision(pod))
        if pod.has_ended:
            ended.append(pod)
    if threshold > 0 and len(ended) > threshold:
        ended = ordered(
            ended, key=lambda pod: (not pod.is_evicted, pod.metadata.creation_timestamp or "", pod.metadata.name)
        )
        known = {id(decision.pod) for decision in decisions}
        decisions += [Decision(pod) for pod in ended[: len(ended) - threshold] if id(pod) not in known]
    return decisions


def is_out_of_service(node: Object) -> bool:
    """Whether the node has the taint "out of service" and is not ready."""
    taints = (node.get("spec") or {}).get("taints") or []
    if not any(taint.get("key") == OUT_OF_SERVICE for taint in taints):
        return False
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((one.get("status") for one in conditions if one.get("type") == "Ready"), None) != "True"


def failed(pod: Object, decision: Decision, now: str) -> Object | None:
    """The failed status of a pod that was not terminated; None for a terminated pod."""
    state = pod.get("status") or {}
    if state.get("phase") in ("Succeeded", "Failed"):
        return None
    patch: Object = {"phase": "Failed"}
    if decision.disruption:
        conditions = [*(state.get("conditions") or ())]
        at = next((at for at, one in enumerate(conditions) if one.get("type") == "DisruptionTarget"), len(conditions))
        before = conditions[at] if at < len(conditions) else {}
        conditions[at : at + 1] = [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": before.get("lastTransitionTime", now) if before.get("status") == "True" else now,
            }
        ]
        patch["conditions"] = conditions
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": patch}


class KnownPods:
    """Pods by their keys in the cache, without pods that are unscheduled, not terminated and not in deletion."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}  # by the key of the pod
        self._ended: set[str] = set()
        self._going: set[str] = set()

    @property
    def nodes(self) -> set[str]:
        """The nodes with pods."""
        return set(self._nodes.values())

    def note(self, key: str, pod: Pod) -> None:
        """A pod as it is now."""
        self.forget(key)
        if pod.node:
            self._nodes[key] = intern(pod.node)
        if pod.has_ended:
            self._ended.add(key)
        if pod.metadata.deletion_timestamp is not None:
            self._going.add(key)

    def forget(self, key: str) -> None:
        """Removes a pod that is deleted, or has changed."""
        self._nodes.pop(key, None)
        self._ended.discard(key)
        self._going.discard(key)

    def candidates(self, missing: Collection[str], threshold: int) -> list[str]:
        """The pods for ``chosen``, in order; it would choose none of the other pods."""
        found = set(self._going)
        if missing:
            found.update([key for key, node in self._nodes.items() if node in missing])
        if 0 < threshold < len(self._ended):
            found |= self._ended
        return ordered(found)


class PodGarbageCollector:
    """``pods`` is their cache; ``call`` runs long computations."""

    name = "pod-garbage-collector-controller"
    log = Logger()

    def __init__(
        self,
        client: Client,
        pods: Cache,
        reactor: IReactorTime,
        now: Callable[[], str],
        call: Call = execute,
        threshold: int = THRESHOLD,
    ) -> None:
        self._client = client.resource("", "pods")
        self._nodes = client.resource("", "nodes")
        self._pods = pods
        self._reactor = reactor
        self._now = now
        self._call = call
        self._threshold = threshold
        self._missing: dict[str, float] = {}  # reactor seconds since which nodes are missing
        self._known = KnownPods()
        self._revision = 0  # the revision up to which pods are known
        self._initialization = -1  # the cache's number of initializations at this revision
        self._running: Deferred[None] | None = None

    async def start(self) -> None:
        self._running = begin(self._reactor, self._run())
        self._running.addErrback(trap_cancelled)

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        while True:
            await deferLater(self._reactor, EVERY)
            try:
                await self._look()
            except CancelledError:
                raise
            except Exception:
                self.log.failure("pods could not be looked at")

    async def _look(self) -> None:
        nodes = {node["metadata"]["name"]: node for node in await self._nodes.list()} if len(self._pods) else {}
        for decision in await self._call(self._decide, nodes):
            await self._remove(decision)

    def _decide(self, nodes: Mapping[str, Object]) -> list[Decision]:
        self._learn()
        known, now = self._known, self._reactor.seconds()
        self._missing = {name: self._missing.get(name, now) for name in known.nodes.difference(nodes)}
        gone = [name for name, since in self._missing.items() if now - since >= QUARANTINE]
        candidates = elements(known.candidates(frozenset(gone), self._threshold))
        pods = [pod for key in candidates if (pod := self._current(key)) is not None]
        return chosen(pods, nodes, gone, self._threshold)

    def _learn(self) -> None:
        """Reads the pods that have changed since the last check; all pods when these are not known."""
        cache = self._pods
        until = cache.revision
        try:
            if cache.initializations == self._initialization:
                changed = {event.entry.key: event for event in elements(cache.events(self._revision, until))}
                for event in elements(changed.values()):
                    self._note(event.entry, deleted=event.kind == DELETED)
                self._revision = until
                return
        except Compacted:
            self.log.debug("too much has changed since the last look: all pods are read")
        self._known = KnownPods()
        initialization = cache.initializations
        entries, until = cache.list()
        for entry in elements(entries):
            self._note(entry, deleted=False)
        self._initialization, self._revision = initialization, until

    def _note(self, entry: Entry, *, deleted: bool) -> None:
        pod = None if deleted else self._read(entry)
        if pod is None:
            self._known.forget(entry.key)
        else:
            self._known.note(entry.key, pod)

    def _current(self, key: str) -> Pod | None:
        """A pod as it is now."""
        namespace, _, name = key.partition("/")
        try:
            entry = self._pods.get(namespace, name)
        except Unreadable:
            return None
        return None if entry is None else self._read(entry)

    def _read(self, entry: Entry) -> Pod | None:
        try:
            return pod_of(entry.data)
        except Exception as error:
            self.log.info("{key} cannot be read: {error}", key=entry.key, error=str(error))
            return None

    async def _remove(self, decision: Decision) -> None:
        metadata = decision.pod.metadata
        try:
            pod = await self._client.get(metadata.name, metadata.namespace)
            if pod["metadata"]["uid"] != metadata.uid:
                return
            patch = failed(pod, decision, self._now())
            if patch is not None:
                await self._client.patch(metadata.name, patch, metadata.namespace, "status")
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata.uid}}
            await self._client.delete(metadata.name, metadata.namespace, options)
        except status.NotFound:
            return
        except status.StatusError as error:
            self.log.info("{name} stays for now: {message}", name=metadata.name, message=error.message)
