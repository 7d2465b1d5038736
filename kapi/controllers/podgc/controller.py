"""Looks every 20 seconds; between two looks nothing is kept but the nodes that were missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import CancelledError, Deferred, execute
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.client.interface import Client
from kapi.client.sliced import begin
from kapi.controllers.podgc.reconcile import QUARANTINE, Decision, Pod, chosen, failed, pod_of
from kapi.machinery import status
from kapi.machinery.checkpoint import steps
from kapi.machinery.tree import Object
from kapi.request.call import Call
from kapi.watchcache.cache import Cache

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
        if not len(self._pods):
            self._missing.clear()
            return
        nodes = {node["metadata"]["name"]: node for node in await self._nodes.list()}
        for decision in await self._call(self._decide, nodes):
            await self._remove(decision)

    def _decide(self, nodes: Mapping[str, Object]) -> list[Decision]:
        pods, now = self._read(), self._reactor.seconds()
        away = {pod.node for pod in steps(pods) if pod.node and pod.node not in nodes}
        self._missing = {name: self._missing.get(name, now) for name in away}
        gone = [name for name, since in self._missing.items() if now - since >= QUARANTINE]
        return chosen(pods, nodes, gone, self._threshold)

    def _read(self) -> list[Pod]:
        found = []
        for entry in steps(self._pods.list()[0]):
            try:
                found.append(pod_of(entry.data))
            except Exception as error:
                self.log.info("{key} cannot be read: {error}", key=entry.key, error=str(error))
        return found

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
