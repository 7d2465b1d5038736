"""Ensures the configuration at the start and every minute; keeps the Dangling condition of every schema.

Part of the API server: ``--controllers`` does not switch it off.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.flowschemas import reconcile
from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client, ResourceClient
from kapi.runtime.persistent import Persistent, Refusals
from kapi.runtime.workqueue import WorkQueue

GROUP = "flowcontrol.apiserver.k8s.io"
PRODUCER = "api-priority-and-fairness-config-producer-v1"
CONSUMER = "api-priority-and-fairness-config-consumer-v1"
_INTERVAL_SECONDS = 60.0


class FlowSchemaController:
    """``producer`` and ``consumer`` write under the names of upstream's two parts."""

    name = "priority-and-fairness-config-producer"

    def __init__(self, producer: Client, consumer: Client, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._schemas = producer.resource(GROUP, "flowschemas")
        self._levels = producer.resource(GROUP, "prioritylevelconfigurations")
        self._statuses = consumer.resource(GROUP, "flowschemas")
        self._now = now
        self._ensuring = Persistent(self.name, self._ensure_all, reactor, _INTERVAL_SECONDS)
        self._queue = WorkQueue(reactor, self.name, self._handle)
        self._unwatch: list[Callable[[], None]] = []

    async def start(self) -> None:
        await self._ensuring.start()
        self._unwatch = [self._schemas.watch(self._schema_changed), self._levels.watch(self._level_changed)]

    def stop(self) -> None:
        self._ensuring.stop()
        for unwatch in self._unwatch:
            unwatch()
        self._queue.stop()

    def _schema_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED":
            self._queue.add(obj["metadata"]["name"])

    def _level_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event == "MODIFIED":
            return
        for schema in self._schemas.lister.list():
            self._queue.add(schema["metadata"]["name"])

    async def _handle(self, key: str) -> float | None:
        schema = self._schemas.lister.get("", key)
        if schema is None:
            return None
        levels = {level["metadata"]["name"] for level in self._levels.lister.list()}
        patch = reconcile.condition_patch(schema, levels, self._now())
        if patch is not None:
            try:
                await self._statuses.apply(key, patch, subresource="status")
            except status.NotFound:
                return None
        return None

    async def _ensure_all(self) -> None:
        refusals = Refusals()
        levels, schemas = (self._levels, reconcile.desired_levels()), (self._schemas, reconcile.desired_schemas())
        for resource, known in (levels, schemas):
            for desired, mandatory in known:
                with refusals:
                    await self._ensure(resource, desired, mandatory)
        for resource, known in (schemas, levels):
            for name in reconcile.obsolete(resource.lister.list(), known):
                with refusals, suppress(status.NotFound):
                    await resource.delete(name)
        refusals.check()

    async def _ensure(self, resource: ResourceClient, desired: Object, mandatory: bool) -> None:
        name = desired["metadata"]["name"]
        existing = resource.lister.get("", name)
        if existing is None:
            try:
                await resource.create(desired)
            except status.AlreadyExists:
                pass  # another server was faster
            return
        patch = reconcile.corrected(existing, desired, mandatory)
        if patch is not None:
            await resource.patch(name, patch)
