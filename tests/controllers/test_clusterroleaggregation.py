"""Aggregated ClusterRoles gather the rules of what their selectors choose."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from kapi.controllers import clusterroleaggregation
from kapi.controllers.clusterroleaggregation import GROUP, ClusterRoleAggregationController, aggregated_rules
from tests.controllers.served import Served

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


ROLES = f"/apis/{GROUP}/v1/clusterroles"


class Aggregation(Served):
    async def _begin(self) -> None:
        await self.begin()
        client = self.api.registry.client
        await self.run_controller(ClusterRoleAggregationController(client, self.api.clock))

    def _rules(self) -> Any:
        for _ in range(20):
            self.api.turn()
        return self.get(f"{ROLES}/total")["rules"]

    async def test_roles_come_and_go(self) -> None:
        await self._begin()
        self.create(ROLES, role("total", select={"in": "1"}))
        self.create(ROLES, role("a", PODS, labels={"in": "1"}))
        self.create(ROLES, role("b", NODES))
        self.assertEqual(self._rules(), [PODS])
        self.patch(f"{ROLES}/b", {"metadata": {"labels": {"in": "1"}}})
        self.assertEqual(self._rules(), [PODS, NODES])
        self.patch(f"{ROLES}/a", {"metadata": {"labels": None}})
        self.assertEqual(self._rules(), [NODES])
        self.patch(f"{ROLES}/b", {"rules": [PODS]})
        self.assertEqual(self._rules(), [PODS])
        self.delete(f"{ROLES}/b")
        self.assertIn(self._rules(), (None, []))

    async def test_rules_are_applied_and_those_of_others_go(self) -> None:
        await self._begin()
        self.create(ROLES, role("a", PODS, labels={"in": "1"}))
        self.create(ROLES, role("total", NODES, select={"in": "1"}))
        self.assertEqual(self._rules(), [PODS])
        managers = self.get(f"{ROLES}/total")["metadata"]["managedFields"]
        owners = [entry["operation"] for entry in managers if "f:rules" in entry["fieldsV1"]]
        self.assertEqual(owners, ["Apply"])
        self.delete(f"{ROLES}/a")
        self.assertIn(self._rules(), (None, []))
        self.create(ROLES, role("own", NODES, select={"in": "2"}))
        self._rules()
        self.assertIn(self.get(f"{ROLES}/own")["rules"], (None, []))

    async def test_selectors_that_change(self) -> None:
        await self._begin()
        self.create(ROLES, role("total", select={"in": "1"}))
        self.create(ROLES, role("a", PODS, labels={"in": "2"}))
        self.assertIn(self._rules(), (None, []))
        self.patch(f"{ROLES}/total", {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"in": "2"}}]}})
        self.assertEqual(self._rules(), [PODS])

    async def test_roles_that_nobody_selects_are_not_aggregated_again(self) -> None:
        """To look at all roles for each new one would take as long as their number's square."""
        await self._begin()
        self.create(ROLES, role("total", select={"in": "1"}))
        self._rules()
        with patch.object(clusterroleaggregation, "aggregated_rules", side_effect=AssertionError):
            for number in range(20):
                self.create(ROLES, role(f"r{number}", PODS, labels={"in": "2"}))
                self._rules()
        self.assertEqual(self.flushLoggedErrors(), [])
