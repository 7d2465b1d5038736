"""Publishes the CA of the serving certificate in the ConfigMap ``kube-root-ca.crt`` of every namespace.

Upstream: ``pkg/controller/certificates/rootcacertpublisher``.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

NAME = "kube-root-ca.crt"
_PAUSE_SECONDS = 10.0  # between two corrections of one ConfigMap
_DESCRIPTION = "kubernetes.io/description"
_TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def desired_config_map(bundle: str) -> Object:
    return {"metadata": {"name": NAME, "annotations": {_DESCRIPTION: _TEXT}}, "data": {"ca.crt": bundle}}


def corrected(existing: Object, bundle: str) -> Object | None:
    """The corrected ConfigMap; None when it is correct."""
    metadata = existing["metadata"]
    annotations = metadata.get("annotations") or {}
    if existing.get("data") == {"ca.crt": bundle} and annotations.get(_DESCRIPTION):
        return None
    annotations = {**annotations, _DESCRIPTION: _TEXT}
    return {**existing, "metadata": {**metadata, "annotations": annotations}, "data": {"ca.crt": bundle}}


class RootCAController(QueueController[str]):
    """``bundle`` returns the CA's PEM text, which may change."""

    name = "root-ca-certificate-publisher-controller"

    def __init__(self, client: Client, reactor: IReactorTime, bundle: Callable[[], str]) -> None:
        self._namespaces = client.resource("", "namespaces")
        self._maps = client.resource("", "configmaps")
        self._bundle = bundle
        self._reactor = reactor
        self._corrected: dict[str, float] = {}  # when, by namespace
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._maps.watch(self._map_changed, name=NAME), self._namespaces.watch(self._namespace_changed)]

    def refresh(self) -> None:
        """To be called when the bundle changed."""
        self._corrected.clear()
        for namespace in self._namespaces.lister.list():
            self._queue.add(namespace["metadata"]["name"])

    def _namespace_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event == "DELETED":
            self._corrected.pop(obj["metadata"]["name"], None)
        else:
            self._queue.add(obj["metadata"]["name"])

    def _map_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "ADDED":
            self._queue.add(obj["metadata"]["namespace"])

    async def _handle(self, key: str) -> float | None:
        namespace = self._namespaces.lister.get("", key)
        if namespace is None or (namespace.get("status") or {}).get("phase") != "Active":
            return None
        existing = self._maps.lister.get(key, NAME)
        try:
            if existing is None:
                await self._maps.create(desired_config_map(self._bundle()), key)
                return None
            better = corrected(existing, self._bundle())
            if better is not None:
                # another server with another CA may correct it to its own at once
                due = self._corrected.get(key, -_PAUSE_SECONDS) + _PAUSE_SECONDS - self._reactor.seconds()
                if due > 0:
                    return due
                self._corrected[key] = self._reactor.seconds()
                await self._maps.update(better, key)
        except (status.AlreadyExists, status.NotFound, status.Conflict):
            return 0.1
        except status.Forbidden as error:
            if not status.is_namespace_ending(error):
                raise
        return None
