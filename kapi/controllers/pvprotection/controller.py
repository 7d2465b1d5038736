"""Adds and removes the finalizer of volumes."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.pvprotection.reconcile import due_patch
from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue


class VolumeProtectionController:
    name = "persistentvolume-protection-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._volumes = client.resource("", "persistentvolumes")
        self._queue: WorkQueue[str] = WorkQueue(reactor, self.name, self._handle)
        self._unwatch: Callable[[], None] | None = None

    async def start(self) -> None:
        self._unwatch = self._volumes.watch(self._changed)

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._queue.stop()

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
