"""Maintains the rules of aggregated ClusterRoles: the rules of all roles that the selectors match, each rule once.

Upstream: ``pkg/controller/clusterroleaggregation``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, QueueController
from kapi.machinery.each import costly, elements
from kapi.machinery.selectors import SelectorError, from_label_selector
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.schema.listindex import mark

GROUP = "rbac.authorization.k8s.io"
#: the manager of the rules in managedFields
MANAGER = "clusterrole-aggregation-controller"
_SELECTED = ""  # the key for the search for aggregated roles that select a changed role; no role has this name


def aggregated_rules(role: Object, roles: Iterable[Object]) -> list[Object] | None:
    """The rules to write; None when the role does not aggregate or has them.  Raises SelectorError."""
    rule = role.get("aggregationRule")
    if rule is None:
        return None
    own = role["metadata"]["name"]
    by_name = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    remaining = [each for each in by_name if each["metadata"]["name"] != own]  # roles that are not selected yet
    rules: dict[object, Object] = {}
    for tree in elements(rule, "clusterRoleSelectors"):
        selector = from_label_selector(tree)
        if selector is None:
            continue
        unselected = []
        for other in costly(remaining):  # a selector may have as many requirements as fit into a body
            if not selector.matches(other["metadata"].get("labels") or {}):
                unselected.append(other)
                continue
            for each in elements(other, "rules"):
                rules.setdefault(mark(each), each)
        remaining = unselected
    found = list(rules.values())
    return None if found == (role.get("rules") or []) else found


def selects(role: Object, changed: Collection[Mapping[str, str]]) -> bool:
    """Whether an aggregated role selects any of these labels; true for an invalid selector, which aggregation reports."""
    for tree in elements(role, "aggregationRule", "clusterRoleSelectors"):
        try:
            selector = from_label_selector(tree)
        except SelectorError:
            return True
        if selector is not None and any(selector.matches(labels) for labels in elements(changed)):
            return True
    return False


class ClusterRoleAggregationController(QueueController[str]):
    """``client`` writes under the name of MANAGER."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._client = client
        self._aggregated: set[str] = set()
        #: the labels of the changed roles, by their content
        self._changed_labels: dict[frozenset[tuple[str, str]], dict[str, str]] = {}
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._client.resource(GROUP, "clusterroles").watch(self._changed)]

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        """Records a changed role, to queue the aggregated roles that select it or did; each of these reads all roles."""
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
        """Queues the roles that select changed ones; not at each event, since selectors may have very many requirements."""
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
                # an empty list is not applied: rules of another manager would stay
                await (roles.apply if rules else roles.patch)(key, {"rules": rules})
            except NotFound:
                return None
        return None
