"""Keeps the status of every ResourceQuota true: admission only adds usage, the controller subtracts that of deleted objects.

Upstream: ``pkg/controller/resourcequota``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IReactorTime

from kapi.admission.quota.evaluators import evaluator_of
from kapi.controllers.resourcequota.reconcile import MEASURED, corrected, limits_of, resources_of
from kapi.machinery import status, tree
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue

_RESYNC_SECONDS = 300.0  # seconds after which a quota is recalculated in any case
_BATCH_SECONDS = 0.05  # deletions of one namespace come together
#: after a creation in another store than the quotas': a count at the same time may have dropped its charge
_RECOUNT_SECONDS = 5.0


class ResourceQuotaController:
    name = "resourcequota-controller"

    def __init__(self, client: Client, reactor: IReactorTime, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._quotas = client.resource("", "resourcequotas")
        self._queue = WorkQueue(reactor, self.name, self._handle)
        self._watched: dict[GroupResource, Callable[[], None]] = {}
        self._unwatch: Callable[[], None] | None = None

    async def start(self) -> None:
        self._unwatch = self._quotas.watch(self._quota_changed)

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        for unwatch in self._watched.values():
            unwatch()
        self._queue.stop()

    def _quota_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event == "DELETED":
            return
        if old is None or limits_of(old) != limits_of(obj) or (obj.get("status") or {}).get("hard") != limits_of(obj):
            self._queue.add(_key(obj))

    def _follow(self, resource: GroupResource) -> bool:
        """Watches a resource; False when it does not exist."""
        if resource in self._watched:
            return True
        try:
            client = self._client.resource(resource.group, resource.resource)
        except status.NotFound:
            return False

        apart = client.history is not self._quotas.history

        def changed(event: str, obj: Object, old: Object | None) -> None:
            if event == "ADDED" and apart:
                self._replenish(obj["metadata"].get("namespace", ""), resource, _RECOUNT_SECONDS)
            elif event == "DELETED" or event == "MODIFIED" and self._usage_changed(resource, obj, old):
                self._replenish(obj["metadata"].get("namespace", ""), resource)

        self._watched[resource] = lambda: None
        self._watched[resource] = client.watch(changed)
        return True

    def _usage_changed(self, resource: GroupResource, obj: Object, old: Object | None) -> bool:
        if resource not in MEASURED or old is None:
            return False
        evaluator, now = evaluator_of(resource), self._clock()
        return evaluator.usage(obj, now) != evaluator.usage(old, now)

    def _replenish(self, namespace: str, resource: GroupResource, seconds: float = _BATCH_SECONDS) -> None:
        for quota in self._quotas.lister.list(namespace):
            if evaluator_of(resource).concerns(limits_of(quota)):
                self._queue.add_after(_key(quota), seconds)

    async def _handle(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        quota = self._quotas.lister.get(namespace, name)
        if quota is None:
            return None
        objects: dict[GroupResource, Sequence[Object] | int] = {}
        revision: int
        counted: int | None = None  # what is in none of the lists was stored after this revision
        for resource in elements(ordered(resources_of(limits_of(quota)))):
            if self._follow(resource):
                client = self._client.resource(resource.group, resource.resource)
                if resource in MEASURED:
                    objects[resource], revision = await client.list_at(namespace)
                else:
                    objects[resource], revision = await client.count_at(namespace)
                if client.history is self._quotas.history:
                    counted = revision if counted is None else min(counted, revision)
        updated = corrected(tree.copy(quota), objects, self._clock())
        if updated is not None:
            try:
                await self._quotas.update(updated, namespace, "status", counted=counted)
            except status.NotFound:
                return None
        return _RESYNC_SECONDS


def _key(quota: Object) -> str:
    metadata = quota["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"
