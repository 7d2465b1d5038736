"""The rules of an aggregated ClusterRole: those of every role its selectors choose, each once.

Upstream: ``pkg/controller/clusterroleaggregation``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kapi.machinery.selectors import from_label_selector

Object = dict[str, Any]


def aggregated_rules(role: Object, roles: Iterable[Object]) -> list[Object] | None:
    """The rules the role should have; None when it does not aggregate or has them.  Raises SelectorError."""
    rule = role.get("aggregationRule")
    if rule is None:
        return None
    own = role["metadata"]["name"]
    by_name = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    wanted: list[Object] = []
    for tree in rule.get("clusterRoleSelectors") or ():
        selector = from_label_selector(tree)
        if selector is None:
            continue
        for other in by_name:
            if other["metadata"]["name"] == own or not selector.matches(other["metadata"].get("labels") or {}):
                continue
            wanted.extend(each for each in other.get("rules") or () if each not in wanted)
    return None if wanted == (role.get("rules") or []) else wanted
