"""Aggregated ClusterRoles gather the rules of what their selectors choose."""

from __future__ import annotations

from typing import Any

from kapi.controllers.clusterroleaggregation.reconcile import aggregated_rules

PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
NODES = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}


def role(name: str, *rules: Any, labels: dict[str, str] | None = None, select: dict[str, str] | None = None) -> Any:
    tree: dict[str, Any] = {"metadata": {"name": name, "labels": labels or {}}, "rules": list(rules) or None}
    if select is not None:
        tree["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": select}]}
    return tree


def test_rules_come_in_the_order_of_names_and_each_once() -> None:
    total = role("total", select={"in": "1"})
    roles = [role("b", NODES, PODS, labels={"in": "1"}), role("a", PODS, labels={"in": "1"}), total, role("c", NODES)]
    assert aggregated_rules(total, roles) == [PODS, NODES]


def test_nothing_to_do_when_the_rules_are_there() -> None:
    total = role("total", PODS, select={"in": "1"})
    assert aggregated_rules(total, [total, role("a", PODS, labels={"in": "1"})]) is None
    empty = role("total", select={"in": "1"})
    assert aggregated_rules(empty, [empty]) is None


def test_a_rule_that_is_no_longer_fed_goes() -> None:
    total = role("total", PODS, select={"in": "1"})
    assert aggregated_rules(total, [total]) == []


def test_a_role_does_not_feed_itself_and_plain_roles_are_left_alone() -> None:
    total = role("total", PODS, labels={"in": "1"}, select={"in": "1"})
    assert aggregated_rules(total, [total]) == []
    assert aggregated_rules(role("plain", PODS), [total]) is None
