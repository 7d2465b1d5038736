"""Signs the kubeconfig in ``kube-public/cluster-info`` with each bootstrap token (upstream: ``bootstrapsigner.go``)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.bootstraptokens.reconcile import (
    CLUSTER_INFO,
    PUBLIC_NAMESPACE,
    SECRET_NAMESPACE,
    expires,
    is_token,
    signed,
)
from kapi.machinery import status
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue


class BootstrapSigner:
    name = "bootstrap-signer-controller"

    def __init__(self, client: Client, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._secrets = client.resource("", "secrets")
        self._maps = client.resource("", "configmaps")
        self._now = now
        self._queue: WorkQueue[str] = WorkQueue(reactor, self.name, self._handle, workers=1)
        self._unwatch: list[Callable[[], None]] = []

    async def start(self) -> None:
        self._unwatch = [
            self._maps.watch(self._info_changed, namespace=PUBLIC_NAMESPACE, name=CLUSTER_INFO),
            self._secrets.watch(self._secret_changed, namespace=SECRET_NAMESPACE),
        ]

    def stop(self) -> None:
        for unwatch in self._unwatch:
            unwatch()
        self._queue.stop()

    def _info_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED":
            self._queue.add(CLUSTER_INFO)

    def _secret_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if is_token(obj):
            self._queue.add(CLUSTER_INFO)

    async def _handle(self, name: str) -> float | None:
        """Signs with all tokens.  Returns the seconds until the next token expires, when its signature has to be removed."""
        try:
            info = await self._maps.get(CLUSTER_INFO, PUBLIC_NAMESPACE)
            secrets = [secret for secret in await self._secrets.list(SECRET_NAMESPACE) if is_token(secret)]
            now = seconds_of(self._now())
            data = signed(info, secrets, now)
            if data is not None:
                await self._maps.update({**info, "data": data}, PUBLIC_NAMESPACE)
        except status.NotFound:
            return None
        ends = [end for end in map(expires, secrets) if end is not None and end > now]
        return min(ends) - now if ends else None
