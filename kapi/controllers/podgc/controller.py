"""Looks every 20 seconds at the pods that have changed since, and at those that may have to go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import CancelledError, Deferred, execute
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.controllers.podgc.known import KnownPods
from kapi.controllers.podgc.reconcile import QUARANTINE, Decision, Pod, chosen, failed, pod_of
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.request.call import Call
from kapi.runtime.interface import Client
from kapi.runtime.sliced import begin
from kapi.store.errors import Compacted
from kapi.watchcache.cache import Cache
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import DELETED
from kapi.watchcache.unreadable import Unreadable

EVERY = 20.0  # seconds
THRESHOLD = 12_500  # pods that have ended and may stay


class PodGarbageCollector:
    """``pods`` is their cache; ``call`` runs what takes long."""

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
        self._missing: dict[str, float] = {}  # since when nodes have been away, in reactor seconds
        self._known = KnownPods()
        self._revision = 0  # up to which it is known
        self._initialization = -1  # of the cache, that it is of
        self._running: Deferred[None] | None = None

    async def start(self) -> None:
        self._running = begin(self._reactor, self._run())
        self._running.addErrback(lambda failure: failure.trap(CancelledError) and None)

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
        """Reads what has changed since the last look; all pods where that is not known."""
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
