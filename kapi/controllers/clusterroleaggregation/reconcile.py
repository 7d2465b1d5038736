"""The rules of an aggregated ClusterRole: those of every role its selectors choose, each once.

Upstream: ``pkg/controller/clusterroleaggregation``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kapi.machinery.each import costly, elements
from kapi.machinery.selectors import SelectorError, from_label_selector
from kapi.machinery.tree import Object
from kapi.schema.listindex import mark


def aggregated_rules(role: Object, roles: Iterable[Object]) -> list[Object] | None:
    """The rules to write; None when the role does not aggregate or has them.  Raises SelectorError."""
    rule = role.get("aggregationRule")
    if rule is None:
        return None
    own = role["metadata"]["name"]
    by_name = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    remaining = [each for each in by_name if each["metadata"]["name"] != own]  # not selected yet
    rules: dict[object, Object] = {}
    for tree in elements(rule, "clusterRoleSelectors"):
        selector = from_label_selector(tree)
        if selector is None:
            continue
        unselected = []
        for other in costly(remaining):  # a selector may have as many requirements as a body takes
            if not selector.matches(other["metadata"].get("labels") or {}):
                unselected.append(other)
                continue
            for each in elements(other, "rules"):
                rules.setdefault(mark(each), each)
        remaining = unselected
    found = list(rules.values())
    return None if found == (role.get("rules") or []) else found


def selects(role: Object, changed: Collection[Mapping[str, str]]) -> bool:
    """Whether an aggregated role selects any of these labels.  An invalid selector does: who aggregates reports it."""
    for tree in elements(role, "aggregationRule", "clusterRoleSelectors"):
        try:
            selector = from_label_selector(tree)
        except SelectorError:
            return True
        if selector is not None and any(selector.matches(labels) for labels in elements(changed)):
            return True
    return False
