"""Keeps the rules of aggregated ClusterRoles (upstream: ``pkg/controller/clusterroleaggregation``)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.client.interface import Client
from kapi.client.workqueue import WorkQueue
from kapi.controllers.clusterroleaggregation.reconcile import aggregated_rules
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object

GROUP = "rbac.authorization.k8s.io"
#: owns the rules in managedFields
MANAGER = "clusterrole-aggregation-controller"


class ClusterRoleAggregationController:
    """``client`` writes under the name of MANAGER."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._client = client
        self._aggregated: set[str] = set()
        self._queue = WorkQueue(reactor, self.name, self._handle)
        self._unwatch: Callable[[], None] = lambda: None

    async def start(self) -> None:
        if any((group, plural) == (GROUP, "clusterroles") for group, plural, _ in self._client.resources()):
            self._unwatch = self._client.resource(GROUP, "clusterroles").watch(self._changed)

    def stop(self) -> None:
        self._unwatch()
        self._queue.stop()

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        """Any role may feed any aggregated one; there are few, so all are looked at."""
        name = obj["metadata"]["name"]
        if event != "DELETED" and obj.get("aggregationRule"):
            self._aggregated.add(name)
        else:
            self._aggregated.discard(name)
        for each in self._aggregated:
            self._queue.add(each)

    async def _handle(self, key: str) -> float | None:
        roles = self._client.resource(GROUP, "clusterroles")
        role = roles.lister.get("", key)
        if role is None:
            return None
        rules = aggregated_rules(role, roles.lister.list())
        if rules is not None:
            try:
                await roles.patch(key, {"rules": rules})
            except NotFound:
                return None
        return None
