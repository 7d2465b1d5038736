"""Updates the slices of Services, a few Services at a time; changes of the slices by others are reverted."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.endpointslice.reconcile import MANAGER, reconciled
from kapi.controllers.endpointslice.slices import MANAGED_BY, SERVICE_NAME
from kapi.controllers.endpointslice.writing import apply_plan, slices_of
from kapi.controllers.service_follower import Key, ServiceFollower
from kapi.controllers.service_pods import selector_of
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue

BATCH_SECONDS = 0.02  # in which changes of several pods are collected


class EndpointSliceController:
    name = "endpointslice-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._services = client.resource("", "services")
        self._pods = client.resource("", "pods")
        self._nodes = client.resource("", "nodes")
        self._slices = client.resource("discovery.k8s.io", "endpointslices")
        self._queue: WorkQueue[Key] = WorkQueue(reactor, self.name, self._handle, workers=5)
        self._follower = ServiceFollower(client, self._enqueue)
        self._unwatch: Callable[[], None] | None = None

    async def start(self) -> None:
        self._follower.start()
        self._unwatch = self._slices.watch(self._slice_changed)

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._follower.stop()
        self._queue.stop()

    def _enqueue(self, key: Key) -> None:
        self._queue.add_after(key, BATCH_SECONDS)

    def _slice_changed(self, event: str, obj: Object, old: Object | None) -> None:
        labels = obj["metadata"].get("labels") or {}
        if event != "ADDED" and MANAGER in (labels.get(MANAGED_BY), _manager_of(old)):
            name = labels.get(SERVICE_NAME) or ((old or obj)["metadata"].get("labels") or {}).get(SERVICE_NAME)
            if name:
                self._enqueue((obj["metadata"]["namespace"], name))

    async def _handle(self, key: Key) -> None:
        namespace, name = key
        service = self._services.lister.get(namespace, name)
        selector = None if service is None else selector_of(service)
        if service is None or selector is None or service["metadata"].get("deletionTimestamp"):
            return  # the slices of a Service are deleted with it
        pods = self._pods.lister.labelled(selector, namespace)
        nodes = {node["metadata"]["name"]: node for node in self._nodes.lister.list()}
        existing = slices_of(self._slices, namespace, name, MANAGER)
        await apply_plan(self._slices, namespace, reconciled(service, pods, nodes, existing))


def _manager_of(old: Object | None) -> str | None:
    return None if old is None else (old["metadata"].get("labels") or {}).get(MANAGED_BY)
