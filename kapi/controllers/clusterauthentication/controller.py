"""Publishes the client CA and the front proxy's settings in ``kube-system/extension-apiserver-authentication``.

Upstream: ``pkg/controlplane/controller/clusterauthenticationtrust``.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.clusterauthentication.reconcile import NAME, NAMESPACE, TrustedIdentities, merged_data
from kapi.machinery.status import AlreadyExists, Conflict, NotFound
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue


class ClusterAuthenticationController:
    """``trusted`` returns the trusted identities, which may change."""

    name = "start-cluster-authentication-info-controller"

    def __init__(self, client: Client, reactor: IReactorTime, trusted: Callable[[], TrustedIdentities]) -> None:
        self._maps = client.resource("", "configmaps")
        self._trusted = trusted
        self._queue = WorkQueue(reactor, self.name, self._handle)
        self._unwatch: Callable[[], None] = lambda: None

    async def start(self) -> None:
        self._unwatch = self._maps.watch(self._changed, namespace=NAMESPACE, name=NAME)
        self._queue.add(NAME)

    def stop(self) -> None:
        self._unwatch()
        self._queue.stop()

    def refresh(self) -> None:
        """To be called when a bundle changed."""
        self._queue.add(NAME)

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "ADDED":
            self._queue.add(NAME)

    async def _handle(self, key: str) -> float | None:
        existing = self._maps.lister.get(NAMESPACE, NAME)
        data = merged_data(existing or {}, self._trusted())
        try:
            if existing is None:
                await self._maps.create({"metadata": {"name": NAME}, "data": data}, NAMESPACE)
            elif (existing.get("data") or {}) != data:
                await self._maps.update({**existing, "data": data}, NAMESPACE)
        except (AlreadyExists, NotFound) as error:  # another server was faster, or the namespace is still to come
            raise Conflict(error.message) from None
        return None
