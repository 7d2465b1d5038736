"""Watches claims; the pods of a namespace only while a claim there waits for them."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers import finalizers
from kapi.controllers.namespace_watches import NamespaceWatches
from kapi.controllers.pvcprotection.reconcile import FINALIZER, due, is_shut_down, used
from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue

Key = tuple[str, str]  # namespace and name


class ClaimProtectionController:
    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._claims = client.resource("", "persistentvolumeclaims")
        self._pods = client.resource("", "pods")
        self._pod_watches = NamespaceWatches(self._pods)
        self._queue: WorkQueue[Key] = WorkQueue(reactor, self.name, self._handle)
        self._unwatch: Callable[[], None] | None = None
        self._waiting: dict[str, set[str]] = {}  # namespace -> names of claims that pods use

    async def start(self) -> None:
        self._unwatch = self._claims.watch(self._claim_changed)

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._pod_watches.stop()
        self._queue.stop()

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
            await self._claims.patch(name, finalizers.changed(claim, FINALIZER, present=not deleting), namespace)
        except status.NotFound:
            pass
        self._wait_no_more(key)
