"""Deletes the objects of a terminating namespace, pods first, also at other servers, then removes the namespace's finalizer.

Upstream: ``pkg/controller/namespace/deletion/{namespaced_resources_deleter,status_condition_utils}.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status, tree
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.registry.errors import interpret
from kapi.runtime.interface import Client
from kapi.runtime.sliced import begin
from kapi.store.errors import StoreError

FINALIZER = "kubernetes"
FINALIZER_SECONDS = 15  # expected time until objects with finalizers are deleted
_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
#: until then other servers have seen the deletion and admit no new objects (upstream waits 5 s)
_GRACE_SECONDS = 1.0
_ELSEWHERE_SECONDS = 60.0  # for the objects of one resource of another server in one attempt
_PODS = ("", "pods")
_EVEN_UNREADABLE: Object = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}
_OPTIONS: Object = {"propagationPolicy": "Background"}


class Content(Protocol):
    """The objects of one resource in a namespace."""

    resource: GroupResource

    async def list(self, namespace: str) -> list[Object]: ...

    async def delete_collection(self, namespace: str, options: Object) -> None: ...


class Elsewhere(Protocol):
    """What discovery knows of other servers."""

    def in_namespaces(self) -> Sequence[Content]: ...

    def stale(self) -> Sequence[GroupVersion]: ...


class Remains(msgspec.Struct):
    """The objects that are still in the namespace, and the errors."""

    by_resource: dict[str, int] = msgspec.field(default_factory=dict)  # "pods." -> number of objects
    by_finalizer: dict[str, int] = msgspec.field(default_factory=dict)
    errors: list[str] = msgspec.field(default_factory=list)
    unknown: list[str] = msgspec.field(default_factory=list)  # group versions whose resources are not known now
    seconds: int = 0  # expected time until they are deleted

    def add(self, group: str, plural: str, left: list[Object], seconds: int, namespace: str) -> None:
        """Counts the objects of a resource that remain after its deletion."""
        if not left:
            return
        self.by_resource[f"{plural}.{group}"] = len(left)
        held = False
        for obj in elements(left):
            for finalizer in elements(obj["metadata"], "finalizers"):
                held = True
                self.by_finalizer[finalizer] = self.by_finalizer.get(finalizer, 0) + 1
        if not seconds and held:
            seconds = FINALIZER_SECONDS
        elif not seconds:
            self.errors.append(f"unexpected items still remain in namespace: {namespace} for gvr: {plural}.{group}")
        self.seconds = max(self.seconds, seconds)


def seconds_for_pods(pods: list[Object], elapsed: float) -> int:
    """The seconds in which the running pods are expected to end."""
    longest = 0
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        longest = max(longest, int((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0))
    return max(0, longest - int(elapsed))


def conditions_after(namespace: Object, remains: Remains, now: str) -> list[Object] | None:
    """The new conditions; None when nothing changes."""
    found = _findings(remains)
    before = (namespace.get("status") or {}).get("conditions") or []
    conditions = [dict(condition) for condition in elements(before)]
    changed = False
    for kind, fine in _FINE.items():
        status = "True" if kind in found else "False"
        reason, message = found.get(kind, fine)
        condition = next((item for item in elements(conditions) if item.get("type") == kind), None)
        if condition is None:
            condition = {"type": kind, "status": status, "lastTransitionTime": now}
            conditions.append(condition)
        elif all(condition.get(k) == v for k, v in (("status", status), ("reason", reason), ("message", message))):
            continue
        if condition["status"] != status:
            condition["lastTransitionTime"] = now
        condition.update(status=status, reason=reason, message=message)
        changed = True
    return conditions if changed else None


def _findings(remains: Remains) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    if remains.unknown:
        text = ", ".join(sorted(f"{gv}: stale GroupVersion discovery: {gv}" for gv in remains.unknown))
        message = (
            f"Discovery failed for some groups, {len(remains.unknown)} failing: unable to retrieve the complete list of "
            f"server APIs: {text}"
        )
        found["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", message)
    if remains.errors:
        text = ", ".join(sorted(remains.errors))
        count = len(remains.errors)
        message = f"Failed to delete all resource types, {count} remaining: {text}"
        found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
    if remains.by_resource:
        text = ", ".join(
            sorted(f"{name} has {count} resource instances" for name, count in remains.by_resource.items())
        )
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {text}")
    if remains.by_finalizer:
        text = ", ".join(
            sorted(f"{name} in {count} resource instances" for name, count in remains.by_finalizer.items())
        )
        message = f"Some content in the namespace has finalizers remaining: {text}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    return found


def finalized(namespace: Object) -> Object:
    """The namespace without this controller's finalizer."""
    spec = namespace.get("spec") or {}
    return {**namespace, "spec": {**spec, "finalizers": [f for f in elements(spec, "finalizers") if f != FINALIZER]}}


class NamespaceController(QueueController[str]):
    """Processes a few namespaces at a time."""

    name = "namespace-controller"
    workers = 10

    def __init__(
        self,
        client: Client,
        reactor: IReactorTime,
        now: Callable[[], str],
        grace: float = _GRACE_SECONDS,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._client = client
        self._namespaces = client.resource("", "namespaces")
        self._now = now
        self._grace = grace
        self._reactor = reactor
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._namespaces.watch(self._changed)]

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED" and obj["metadata"].get("deletionTimestamp"):
            self._queue.add_after(obj["metadata"]["name"], self._grace)

    async def _handle(self, key: str) -> float | None:
        try:
            namespace = tree.copy(await self._namespaces.get(key))
            if not namespace["metadata"].get("deletionTimestamp"):
                return None
            if (namespace.get("status") or {}).get("phase") != "Terminating":
                namespace["status"] = {**(namespace.get("status") or {}), "phase": "Terminating"}
                namespace = tree.copy(await self._namespaces.update(namespace, subresource="status"))
            if FINALIZER not in ((namespace.get("spec") or {}).get("finalizers") or []):
                return None
            remains = await self._empty(namespace)
            conditions = conditions_after(namespace, remains, self._now())
            if conditions is not None:
                namespace["status"]["conditions"] = conditions
                namespace = tree.copy(await self._namespaces.update(namespace, subresource="status"))
            if remains.by_resource or remains.errors or remains.unknown:
                return min(5.0, remains.seconds / 2 + 1)
            await self._namespaces.update(finalized(namespace), subresource="finalize")
        except status.NotFound:
            return None
        except status.Conflict:
            return 0.0
        return None

    async def _empty(self, namespace: Object) -> Remains:
        """Deletes pods, and when none remain all other objects."""
        metadata, remains = namespace["metadata"], Remains()
        elapsed = seconds_of(self._now()) - seconds_of(metadata["deletionTimestamp"])
        if self._elsewhere is not None:
            remains.unknown = [str(group_version) for group_version in self._elsewhere.stale()]
        await self._delete(*_PODS, metadata["name"], remains, elapsed)
        if remains.by_resource or remains.errors:
            return remains
        for group, plural, namespaced in self._client.resources():
            if namespaced and (group, plural) != _PODS:
                await self._delete(group, plural, metadata["name"], remains, elapsed)
        for content in () if self._elsewhere is None else self._elsewhere.in_namespaces():
            await self._delete_elsewhere(content, metadata["name"], remains)
        return remains

    async def _delete_elsewhere(self, content: Content, namespace: str, remains: Remains) -> None:
        async def delete() -> list[Object]:
            await content.delete_collection(namespace, _OPTIONS)
            return await content.list(namespace)

        try:
            left = await begin(self._reactor, delete()).addTimeout(_ELSEWHERE_SECONDS, self._reactor)
            remains.add(content.resource.group, content.resource.resource, left, 0, namespace)
        except CancelledError:
            raise
        except status.NotFound:
            return
        except TimeoutError:  # its pages may have no end, and other namespaces wait
            text = f"{content.resource}: the objects in {namespace} were not deleted in {_ELSEWHERE_SECONDS:g} s"
            remains.errors.append(text)
        except Exception as error:  # whatever another server answers
            remains.errors.append(str(error))

    async def _delete(self, group: str, plural: str, namespace: str, remains: Remains, elapsed: float) -> None:
        try:
            resource = self._client.resource(group, plural)
            pods = await resource.list(namespace) if (group, plural) == _PODS else []
            present = len(pods) if pods else (await resource.count_at(namespace))[0]
            for _, name in resource.unreadable(namespace):
                # unreadable objects are deleted with their namespace; their finalizers are unknown
                await resource.delete(name, namespace, _EVEN_UNREADABLE)
            if not present:
                return
            seconds = seconds_for_pods(pods, elapsed)
            await resource.delete_collection(namespace, _OPTIONS)
            remains.add(group, plural, await resource.list(namespace), seconds, namespace)
        except status.NotFound:
            return  # the definition of a custom resource was just deleted
        except status.StatusError as error:
            remains.errors.append(error.message)
        except StoreError as error:  # the store of this resource fails: the other resources are still deleted
            remains.errors.append(interpret(error, GroupResource(group, plural), "").message)
