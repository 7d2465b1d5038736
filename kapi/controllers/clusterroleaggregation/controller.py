"""Keeps the rules of aggregated ClusterRoles (upstream: ``pkg/controller/clusterroleaggregation``)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.clusterroleaggregation.reconcile import aggregated_rules, selects
from kapi.machinery.each import costly
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue

GROUP = "rbac.authorization.k8s.io"
#: the manager of the rules in managedFields
MANAGER = "clusterrole-aggregation-controller"
_SELECTED = ""  # the key of the work to find the aggregated roles that select what has changed; no role has this name


class ClusterRoleAggregationController:
    """``client`` writes under the name of MANAGER."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._client = client
        self._aggregated: set[str] = set()
        #: the labels of the roles that have changed, by what is in them
        self._changed_labels: dict[frozenset[tuple[str, str]], dict[str, str]] = {}
        self._queue = WorkQueue(reactor, self.name, self._handle)
        self._unwatch: Callable[[], None] = lambda: None

    async def start(self) -> None:
        self._unwatch = self._client.resource(GROUP, "clusterroles").watch(self._changed)

    def stop(self) -> None:
        self._unwatch()
        self._queue.stop()

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        """Queues the aggregated roles that select it, or did: each looks at all roles, of which there may be thousands."""
        name = obj["metadata"]["name"]
        if event != "DELETED" and obj.get("aggregationRule"):
            self._aggregated.add(name)
            self._queue.add(name)
        else:
            self._aggregated.discard(name)
        for each in (obj, old):
            labels = (each or obj)["metadata"].get("labels") or {}
            self._changed_labels[frozenset(labels.items())] = labels
        self._queue.add(_SELECTED)

    def _queue_selecting(self) -> None:
        """Here and not with each event: selectors may have as many requirements as a body takes."""
        lister = self._client.resource(GROUP, "clusterroles").lister
        changed, self._changed_labels = self._changed_labels, {}
        for name in costly(sorted(self._aggregated)):
            role = lister.get("", name)
            if role is not None and selects(role, changed.values()):
                self._queue.add(name)

    async def _handle(self, key: str) -> float | None:
        if key == _SELECTED:
            self._queue_selecting()
            return None
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
