"""Makes the ServiceAccount ``default`` of every active namespace (upstream: ``pkg/controller/serviceaccount``)."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

NAME = "default"


class ServiceAccountController(QueueController[str]):
    name = "serviceaccount-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._namespaces = client.resource("", "namespaces")
        self._accounts = client.resource("", "serviceaccounts")
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._accounts.watch(self._account_changed), self._namespaces.watch(self._namespace_changed)]

    def _namespace_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED":
            self._queue.add(obj["metadata"]["name"])

    def _account_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event == "DELETED" and obj["metadata"]["name"] == NAME:
            self._queue.add(obj["metadata"]["namespace"])

    async def _handle(self, key: str) -> float | None:
        namespace = self._namespaces.lister.get("", key)
        if namespace is None or (namespace.get("status") or {}).get("phase") != "Active":
            return None
        if self._accounts.lister.get(key, NAME) is None:
            try:
                await self._accounts.create({"metadata": {"name": NAME}}, key)
            except (status.AlreadyExists, status.NotFound):
                return None
            except status.Forbidden as error:
                if not status.is_namespace_ending(error):
                    raise
        return None
