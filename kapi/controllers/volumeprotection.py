"""Keeps claims that a pod uses, and volumes that are bound, when they are being deleted.

The pods of a namespace are watched only while a claim there waits for its pods.
Upstream: ``pkg/controller/volume/pvcprotection``, ``pkg/controller/volume/pvprotection``.
"""

from __future__ import annotations

from collections.abc import Iterable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, NamespaceWatches, QueueController
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
Key = tuple[str, str]  # namespace and name
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def _has(obj: Object, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or [])


def _changed(obj: Object, finalizer: str, *, present: bool) -> Object:
    """A merge patch that adds or removes the finalizer; it conflicts if the object has changed since."""
    metadata = obj["metadata"]
    others = [name for name in elements(metadata, "finalizers") if name != finalizer]
    updated = [*others, finalizer] if present else others
    identity = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"metadata": {**identity, "finalizers": updated or None}}


def due(claim: Object) -> bool:
    """Whether the finalizer has to be removed (the claim is being deleted) or added (it is not)."""
    return bool(claim["metadata"].get("deletionTimestamp")) == _has(claim, CLAIM_FINALIZER)


def used(claim: Object, pods: Iterable[Object]) -> bool:
    return any(uses(pod, claim) for pod in pods)


def uses(pod: Object, claim: Object) -> bool:
    """Only pods on a node use it: the kubelet starts none with a claim that is being deleted."""
    spec, name = pod.get("spec") or {}, claim["metadata"]["name"]
    if not spec.get("nodeName"):
        return False
    for volume in elements(spec, "volumes"):
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == name:
            return True
        if volume.get("ephemeral") is not None and not is_shut_down(pod):
            if f"{pod['metadata']['name']}-{volume['name']}" == name and _controlled(claim, pod):
                return True
    return False


def is_shut_down(pod: Object) -> bool:
    """The kubelet has ended it and asked for its removal."""
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") == 0


def _controlled(claim: Object, pod: Object) -> bool:
    references = claim["metadata"].get("ownerReferences") or []
    return any(one.get("controller") and one.get("uid") == pod["metadata"]["uid"] for one in references)


class ClaimProtectionController(QueueController[Key]):
    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._claims = client.resource("", "persistentvolumeclaims")
        self._pods = client.resource("", "pods")
        self._pod_watches = NamespaceWatches(self._pods)
        super().__init__(reactor)
        self._waiting: dict[str, set[str]] = {}  # namespace -> names of claims that pods use

    def _watches(self) -> Ends:
        return [self._claims.watch(self._claim_changed), self._pod_watches.stop]

    def _claim_changed(self, event: str, obj: Object, old: Object | None) -> None:
        key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if event == "DELETED":
            self._wait_no_more(key)
        elif due(obj):
            self._queue.add(key)

    def _wait(self, key: Key) -> None:
        namespace, name = key
        self._waiting.setdefault(namespace, set()).add(name)

        def pod_changed(event: str, pod: Object, old: Object | None) -> None:
            if event == "DELETED" or is_shut_down(pod):
                for waiting in self._waiting.get(namespace, ()):
                    self._queue.add((namespace, waiting))

        self._pod_watches.begin(namespace, pod_changed)

    def _wait_no_more(self, key: Key) -> None:
        namespace, name = key
        waiting = self._waiting.get(namespace)
        if waiting is None:
            return
        waiting.discard(name)
        if not waiting:
            del self._waiting[namespace]
            self._pod_watches.end(namespace)

    async def _handle(self, key: Key) -> None:
        namespace, name = key
        try:
            claim = await self._claims.get(name, namespace)
            if not due(claim):
                return
            deleting = bool(claim["metadata"].get("deletionTimestamp"))
            if deleting:
                self._wait(key)
                if used(claim, await self._pods.list(namespace)):
                    return
            await self._claims.patch(name, _changed(claim, CLAIM_FINALIZER, present=not deleting), namespace)
        except status.NotFound:
            pass
        self._wait_no_more(key)


def due_patch(volume: Object) -> Object | None:
    """The patch that adds or removes the finalizer; None when there is nothing to do."""
    deleting = bool(volume["metadata"].get("deletionTimestamp"))
    if deleting != _has(volume, VOLUME_FINALIZER) or (deleting and _is_bound(volume)):
        return None
    return _changed(volume, VOLUME_FINALIZER, present=not deleting)


def _is_bound(volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") == "Bound"


class VolumeProtectionController(QueueController[str]):
    name = "persistentvolume-protection-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._volumes = client.resource("", "persistentvolumes")
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._volumes.watch(self._changed)]

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED" and due_patch(obj) is not None:
            self._queue.add(obj["metadata"]["name"])

    async def _handle(self, name: str) -> None:
        try:
            patch = due_patch(await self._volumes.get(name))
            if patch is not None:
                await self._volumes.patch(name, patch)
        except status.NotFound:
            return
