"""Keeps the status of every ResourceQuota true: admission only adds usage, the controller subtracts the usage of deleted objects.

Upstream: ``pkg/controller/resourcequota``, ``quota/v1/resources.go``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from twisted.internet.interfaces import IReactorTime

from kapi.admission.quota import lists
from kapi.admission.quota.evaluators import DEVICE_CLAIMS, Devices, Evaluator, evaluator_of, requirements_of
from kapi.admission.quota.lists import Amounts
from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status, tree
from kapi.machinery.each import elements, entries
from kapi.machinery.gvk import GroupResource
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

PODS, SERVICES = GroupResource("", "pods"), GroupResource("", "services")
CLAIMS = GroupResource("", "persistentvolumeclaims")
#: resources that are charged for more than their number: their updates matter, too
MEASURED = (PODS, SERVICES, CLAIMS, DEVICE_CLAIMS)
_NUMBERED = tuple(
    GroupResource("", name) for name in ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
)
_RESYNC_SECONDS = 300.0  # seconds after which a quota is recalculated in any case
_BATCH_SECONDS = 0.05  # deletions of one namespace come together
#: after a creation in another store than the quotas': a count at the same time may have dropped its charge
_RECOUNT_SECONDS = 5.0


#: objects by their resource, or how many there are
Counted = Mapping[GroupResource, Sequence[Object] | int]


def limits_of(quota: Object) -> Amounts:
    return (quota.get("spec") or {}).get("hard") or {}


def resources_of(names: Iterable[str], devices: Devices | None = None) -> set[GroupResource]:
    """The resources whose objects a quota with limits of these names counts."""
    names = set(names)
    known = (*MEASURED, *_NUMBERED)
    found = {resource for resource in known if evaluator_of(resource, devices).concerns(names)}
    for name in elements(names):
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            found.add(GroupResource(group, plural))
    return found


def usage(quota: Object, objects: Counted, now: float, devices: Devices | None = None) -> Amounts:
    """What the objects of the quota's namespace use of it; only resources in ``objects`` are counted.

    Of a resource that is not in MEASURED their number will do: each counts as one, and none has a scope.
    """
    limits, requirements = limits_of(quota), requirements_of(quota)
    total: Amounts = {}
    for resource, present in entries(objects):
        evaluator = evaluator_of(resource, devices)
        names = evaluator.concerns(limits)
        if not names:
            continue
        lists.add_to(total, {name: "0" for name in names})
        if isinstance(present, int):
            if not requirements:
                lists.add_to(total, {name: str(present) for name in names})
            continue
        for obj in elements(present):
            if len(evaluator.matching(requirements, obj)) == len(requirements):
                lists.add_to(total, lists.mask(evaluator.usage(obj, now), names))
    return lists.mask(total, limits)


def corrected(quota: Object, objects: Counted, now: float, devices: Devices | None = None) -> Object | None:
    """The quota with the status it should have; None when it has it."""
    status, limits = quota.get("status") or {}, limits_of(quota)
    before = status.get("used")
    used = lists.mask({**(before or {}), **usage(quota, objects, now, devices)}, limits)
    if before is not None and status.get("hard") == limits and lists.equal(used, before):
        return None
    return {**quota, "status": {"hard": dict(limits), "used": used}}


class ResourceQuotaController(QueueController[str]):
    name = "resourcequota-controller"

    def __init__(
        self,
        client: Client,
        reactor: IReactorTime,
        clock: Callable[[], float] = time.time,
        *,
        extended_resources: bool = True,
    ) -> None:
        """``extended_resources``: claims of devices count for the extended resources of their classes, too."""
        self._client = client
        self._clock = clock
        self._extended_resources = extended_resources
        self._quotas = client.resource("", "resourcequotas")
        super().__init__(reactor)
        self._watched: dict[GroupResource, Callable[[], None]] = {}

    def _watches(self) -> Ends:
        return [self._quotas.watch(self._quota_changed)]

    def stop(self) -> None:
        for unwatch in self._watched.values():
            unwatch()
        super().stop()

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

    def _devices(self) -> Devices | None:
        if not self._extended_resources:
            return None
        try:
            classes, claims = (
                self._client.resource("resource.k8s.io", name) for name in ("deviceclasses", "resourceclaims")
            )
        except status.NotFound:  # the group is switched off
            return None
        return Devices(classes.lister, claims.lister, self._client.resource("", "pods").lister)

    def _evaluator(self, resource: GroupResource) -> Evaluator:
        return evaluator_of(resource, self._devices() if resource == DEVICE_CLAIMS else None)

    def _usage_changed(self, resource: GroupResource, obj: Object, old: Object | None) -> bool:
        if resource not in MEASURED or old is None:
            return False
        evaluator, now = self._evaluator(resource), self._clock()
        return evaluator.usage(obj, now) != evaluator.usage(old, now)

    def _replenish(self, namespace: str, resource: GroupResource, seconds: float = _BATCH_SECONDS) -> None:
        evaluator = self._evaluator(resource)
        for quota in self._quotas.lister.list(namespace):
            if evaluator.concerns(limits_of(quota)):
                self._queue.add_after(_key(quota), seconds)

    async def _handle(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        quota = self._quotas.lister.get(namespace, name)
        if quota is None:
            return None
        objects: dict[GroupResource, Sequence[Object] | int] = {}
        revision: int
        counted: int | None = None  # what is in none of the lists was stored after this revision
        devices = self._devices()
        for resource in elements(ordered(resources_of(limits_of(quota), devices))):
            if self._follow(resource):
                client = self._client.resource(resource.group, resource.resource)
                if resource in MEASURED:
                    objects[resource], revision = await client.list_at(namespace)
                else:
                    objects[resource], revision = await client.count_at(namespace)
                if client.history is self._quotas.history:
                    counted = revision if counted is None else min(counted, revision)
        updated = corrected(tree.copy(quota), objects, self._clock(), devices)
        if updated is not None:
            try:
                await self._quotas.update(updated, namespace, "status", counted=counted)
            except status.NotFound:
                return None
        return _RESYNC_SECONDS


def _key(quota: Object) -> str:
    metadata = quota["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"
