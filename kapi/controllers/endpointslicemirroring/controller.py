"""Watches Endpoints, the Services they belong to, and the slices that were made of them."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.endpointslice.slices import MANAGED_BY, SERVICE_NAME, Plan
from kapi.controllers.endpointslice.writing import apply_plan, slices_of
from kapi.controllers.endpointslicemirroring.reconcile import MANAGER, is_mirrored, reconciled
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue

Key = tuple[str, str]  # namespace and name of Endpoints
BATCH_SECONDS = 0.02  # in which changes are collected


class EndpointSliceMirroringController:
    name = "endpointslice-mirroring-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._endpoints = client.resource("", "endpoints")
        self._services = client.resource("", "services")
        self._slices = client.resource("discovery.k8s.io", "endpointslices")
        self._queue: WorkQueue[Key] = WorkQueue(reactor, self.name, self._handle, workers=5)
        self._unwatch: list[Callable[[], None]] = []

    async def start(self) -> None:
        self._unwatch = [
            self._endpoints.watch(self._changed),
            self._services.watch(self._changed),
            self._slices.watch(self._slice_changed),
        ]

    def stop(self) -> None:
        for unwatch in self._unwatch:
            unwatch()
        self._queue.stop()

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        self._queue.add_after((obj["metadata"]["namespace"], obj["metadata"]["name"]), BATCH_SECONDS)

    def _slice_changed(self, event: str, obj: Object, old: Object | None) -> None:
        labels = obj["metadata"].get("labels") or {}
        if event != "ADDED" and labels.get(MANAGED_BY) == MANAGER and labels.get(SERVICE_NAME):
            self._queue.add_after((obj["metadata"]["namespace"], labels[SERVICE_NAME]), BATCH_SECONDS)

    async def _handle(self, key: Key) -> None:
        namespace, name = key
        endpoints = self._endpoints.lister.get(namespace, name)
        existing = slices_of(self._slices, namespace, name, MANAGER)
        if endpoints is not None and is_mirrored(endpoints, self._services.lister.get(namespace, name)):
            await apply_plan(self._slices, namespace, reconciled(endpoints, existing))
        elif existing:
            await apply_plan(self._slices, namespace, Plan(delete=existing))
