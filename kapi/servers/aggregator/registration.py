"""The APIServices of the group versions that this process serves: their priorities, and who writes them when.

Built-in group versions are registered once, at the start; those of custom resources follow their definitions.  No requests are
made to other servers, so that none of them can delay a new custom resource.
Upstream: kube-aggregator ``autoregister``, apiextensions ``crdregistration``, ``pkg/controlplane/apiserver`` default priorities.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.endpoints.discovery.groups import version_rank
from kapi.machinery import status
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.apiregistration import AUTOMANAGED
from kapi.runtime.interface import ResourceClient
from kapi.runtime.persistent import all_of
from kapi.runtime.workqueue import WorkQueue

GROUP = "apiregistration.k8s.io"
WORKERS = 5
_MAX_ATTEMPTS = 5
_PASSING = (status.AlreadyExists, status.Conflict, status.NotFound)  # errors of a write when another writer was faster
ON_START, ALWAYS = "onstart", "true"
_GROUPS = {
    "": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
    "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
    "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
    "node.k8s.io": 16300, "discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000, "storagemigration.k8s.io": 15800,
}  # fmt: skip
_VERSIONS = {
    ("", "v1"): 1, ("autoscaling", "v2"): 30, ("resource.k8s.io", "v1"): 21, ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1beta2"): 15, ("admissionregistration.k8s.io", "v1beta1"): 12,
    ("admissionregistration.k8s.io", "v1alpha1"): 9,
}  # fmt: skip
#: priorities of the group versions of custom resources
CUSTOM_GROUP, CUSTOM_VERSION = 1000, 100
_FIRST = 20000  # apiregistration.k8s.io, which has no APIService of its own


def group_priority(group: str) -> int:
    """``groupPriorityMinimum`` of a built-in group's APIServices."""
    return _FIRST if group == "apiregistration.k8s.io" else _GROUPS.get(group, CUSTOM_GROUP)


def version_priority(group: str, version: str) -> int:
    """``versionPriority`` of a built-in group version's APIService."""
    found = _VERSIONS.get((group, version))
    if found is not None:
        return found
    return {3: 15, 2: 9, 1: 1}.get(version_rank(version)[0], 1)


class Change(NamedTuple):
    """A write: ``verb`` is create, update or delete."""

    verb: str
    service: Object


def service_name(group_version: GroupVersion) -> str:
    return f"{group_version.version}.{group_version.group}"


def built_in(group_version: GroupVersion) -> Object:
    """The APIService of a built-in group version."""
    group, version = group_version
    return _service(group_version, ON_START, group_priority(group), version_priority(group, version))


def custom(group_version: GroupVersion) -> Object:
    """The APIService of a group version of custom resources."""
    return _service(group_version, ALWAYS, CUSTOM_GROUP, CUSTOM_VERSION)


def _service(group_version: GroupVersion, managed: str, group_minimum: int, version_minimum: int) -> Object:
    spec: Object = {"group": group_version.group} if group_version.group else {}
    spec.update(version=group_version.version, groupPriorityMinimum=group_minimum, versionPriority=version_minimum)
    return {"metadata": {"name": service_name(group_version), "labels": {AUTOMANAGED: managed}}, "spec": spec}


def decide(desired: Object | None, found: Object | None, *, starting: bool) -> Change | None:
    """The write that turns ``found``, the existing APIService if there is one, into ``desired``; None when none is needed.

    After the start only APIServices of custom resources are maintained.  An APIService without the label belongs to its user.
    """
    if desired is not None and not starting and _managed(desired) == ON_START:
        return None
    if found is None:
        return None if desired is None else Change("create", desired)
    if _managed(found) not in ((ON_START, ALWAYS) if starting else (ALWAYS,)):
        return None
    if desired is None:
        return Change("delete", found)
    return None if found["spec"] == desired["spec"] else Change("update", {**found, "spec": desired["spec"]})


def _managed(service: Object) -> str | None:
    return (service["metadata"].get("labels") or {}).get(AUTOMANAGED)


class Served(Protocol):
    """The group versions that this process serves at present."""

    def built_in(self) -> Iterable[GroupVersion]: ...
    def custom(self) -> Iterable[GroupVersion]: ...
    def is_custom(self, gv: GroupVersion) -> bool: ...


class AutoRegistration:
    """Creates and deletes the APIServices."""

    log = Logger()

    def __init__(self, services: ResourceClient, reactor: IReactorTime, served: Served) -> None:
        self._services = services
        self._served = served
        self._queue: WorkQueue[GroupVersion] = WorkQueue(reactor, "autoregister", self._register, WORKERS)
        self.complete = False  # set when all group versions of the start are registered, or were refused

    async def register_all(self) -> None:
        """Makes, corrects and removes APIServices as the served group versions demand.

        Raises StatusError when a write is refused; the others are made all the same.
        """
        desired = [built_in(gv) for gv in self._served.built_in() if gv.group != GROUP]
        desired += [custom(gv) for gv in self._served.custom()]
        by_name = {obj["metadata"]["name"]: obj for obj in desired}
        names = {*by_name, *(obj["metadata"]["name"] for obj in self._services.lister.list())}
        await all_of(self._put_right(name, by_name.get(name)) for name in sorted(names))

    async def _put_right(self, name: str, desired: Object | None) -> None:
        """Raises Conflict when others, such as the controller of its status, write the APIService again and again."""
        for _ in range(_MAX_ATTEMPTS):
            change = decide(desired, self._services.lister.get("", name), starting=True)
            try:
                return None if change is None else await self._write(change)
            except _PASSING as error:
                passing = error
        raise passing

    def stop(self) -> None:
        self._queue.stop()

    def enqueue(self, gv: GroupVersion) -> None:
        """Call it when a custom resource of a group version, or its APIService, was added, changed or removed."""
        if self.complete:
            self._queue.add(gv)

    async def _register(self, gv: GroupVersion) -> None:
        desired = custom(gv) if self._served.is_custom(gv) else None
        change = decide(desired, self._services.lister.get("", service_name(gv)), starting=False)
        if change is None:
            return
        try:
            await self._write(change)
        except _PASSING as error:  # an event of the object will follow and add the key to the queue again
            self.log.info("apiservice: {message}", message=error.message)

    async def _write(self, change: Change) -> None:
        obj = change.service
        if change.verb == "create":
            await self._services.create(obj)
        elif change.verb == "update":
            await self._services.update(obj)
        else:
            options = {"preconditions": {"uid": obj["metadata"]["uid"]}}
            await self._services.delete(obj["metadata"]["name"], options=options)
