"""The rules of an aggregated ClusterRole: those of every role its selectors choose, each once.

Upstream: ``pkg/controller/clusterroleaggregation``.
"""

from __future__ import annotations

from collections.abc import Iterable

from kapi.machinery.checkpoint import steps
from kapi.machinery.selectors import from_label_selector
from kapi.machinery.tree import Object
from kapi.schema.listindex import mark


def aggregated_rules(role: Object, roles: Iterable[Object]) -> list[Object] | None:
    """The rules the role should have; None when it does not aggregate or has them.  Raises SelectorError."""
    rule = role.get("aggregationRule")
    if rule is None:
        return None
    own = role["metadata"]["name"]
    by_name = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    waiting = [
        each for each in by_name if each["metadata"]["name"] != own
    ]  # not chosen yet: one is enough to have all rules
    wanted: dict[object, Object] = {}
    for tree in steps(rule.get("clusterRoleSelectors") or ()):
        selector = from_label_selector(tree)
        if selector is None:
            continue
        left = []
        for other in steps(waiting, 1):  # a selector may have as many requirements as a body takes
            if not selector.matches(other["metadata"].get("labels") or {}):
                left.append(other)
                continue
            for each in steps(other.get("rules") or ()):
                wanted.setdefault(mark(each), each)
        waiting = left
    found = list(wanted.values())
    return None if found == (role.get("rules") or []) else found
