"""Deletes the Secrets of tokens that have expired (upstream: ``tokencleaner.go``)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.bootstraptokens.reconcile import SECRET_NAMESPACE, expires, is_token
from kapi.machinery import status
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue


class TokenCleaner:
    name = "token-cleaner-controller"

    def __init__(self, client: Client, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._secrets = client.resource("", "secrets")
        self._now = now
        self._queue: WorkQueue[str] = WorkQueue(reactor, self.name, self._handle)
        self._unwatch: Callable[[], None] | None = None

    async def start(self) -> None:
        self._unwatch = self._secrets.watch(self._changed, namespace=SECRET_NAMESPACE)

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._queue.stop()

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED" and is_token(obj):
            self._queue.add(obj["metadata"]["name"])

    async def _handle(self, name: str) -> float | None:
        try:
            secret = await self._secrets.get(name, SECRET_NAMESPACE)
            end = expires(secret)
            if not is_token(secret) or end is None:
                return None
            left = end - seconds_of(self._now())
            if left > 0:
                return left
            preconditions = {"uid": secret["metadata"]["uid"], "resourceVersion": secret["metadata"]["resourceVersion"]}
            await self._secrets.delete(name, SECRET_NAMESPACE, {"preconditions": preconditions})
        except status.NotFound:
            return None
        return None
