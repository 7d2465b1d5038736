"""Deletes the objects of a terminating namespace, pods first, then removes its finalizer."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.namespaces import reconcile
from kapi.machinery import status, tree
from kapi.machinery.gvk import GroupResource
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.registry.errors import interpret
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue
from kapi.store.errors import StoreError

#: until then other servers have seen the deletion and admit no new objects (upstream waits 5 s)
_GRACE_SECONDS = 1.0
_PODS = ("", "pods")
_EVEN_UNREADABLE: Object = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}
_OPTIONS: Object = {"propagationPolicy": "Background"}


class NamespaceController:
    """Processes a few namespaces at a time."""

    name = "namespace-controller"

    def __init__(
        self, client: Client, reactor: IReactorTime, now: Callable[[], str], grace: float = _GRACE_SECONDS
    ) -> None:
        self._client = client
        self._namespaces = client.resource("", "namespaces")
        self._now = now
        self._grace = grace
        self._queue = WorkQueue(reactor, self.name, self._handle, workers=10)
        self._unwatch: Callable[[], None] | None = None

    async def start(self) -> None:
        self._unwatch = self._namespaces.watch(self._changed)

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._queue.stop()

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
            if reconcile.FINALIZER not in ((namespace.get("spec") or {}).get("finalizers") or []):
                return None
            remains = await self._empty(namespace)
            conditions = reconcile.conditions_after(namespace, remains, self._now())
            if conditions is not None:
                namespace["status"]["conditions"] = conditions
                namespace = tree.copy(await self._namespaces.update(namespace, subresource="status"))
            if remains.by_resource or remains.errors:
                return min(5.0, remains.seconds / 2 + 1)
            await self._namespaces.update(reconcile.finalized(namespace), subresource="finalize")
        except status.NotFound:
            return None
        except status.Conflict:
            return 0.0
        return None

    async def _empty(self, namespace: Object) -> reconcile.Remains:
        """Deletes pods, and when none remain all other objects."""
        metadata, remains = namespace["metadata"], reconcile.Remains()
        elapsed = seconds_of(self._now()) - seconds_of(metadata["deletionTimestamp"])
        await self._delete(*_PODS, metadata["name"], remains, elapsed)
        if remains.by_resource or remains.errors:
            return remains
        for group, plural, namespaced in self._client.resources():
            if namespaced and (group, plural) != _PODS:
                await self._delete(group, plural, metadata["name"], remains, elapsed)
        return remains

    async def _delete(
        self, group: str, plural: str, namespace: str, remains: reconcile.Remains, elapsed: float
    ) -> None:
        try:
            resource = self._client.resource(group, plural)
            pods = await resource.list(namespace) if (group, plural) == _PODS else []
            present = len(pods) if pods else (await resource.count_at(namespace))[0]
            for _, name in resource.unreadable(namespace):
                # it is deleted with its namespace; its finalizers cannot be read
                await resource.delete(name, namespace, _EVEN_UNREADABLE)
            if not present:
                return
            seconds = reconcile.seconds_for_pods(pods, elapsed)
            await resource.delete_collection(namespace, _OPTIONS)
            remains.add(group, plural, await resource.list(namespace), seconds, namespace)
        except status.NotFound:
            return  # a custom resource that has just gone
        except status.StatusError as error:
            remains.errors.append(error.message)
        except StoreError as error:  # of this resource's store: the other resources are deleted
            remains.errors.append(interpret(error, GroupResource(group, plural), "").message)
