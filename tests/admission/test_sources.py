"""Policies, bindings and webhooks are read when they have changed, in steps, and what has not changed is not read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kapi.admission.policy.source import Policy, PolicySource
from kapi.admission.webhook.hooks import HookSource
from kapi.machinery.tree import Object
from tests.growth.counting import stretches


class Listed:
    """A lister of what is in it."""

    def __init__(self, *objects: Object) -> None:
        self.objects = list(objects)

    def list(self, namespace: str = "") -> list[Object]:
        return list(self.objects)

    def get(self, namespace: str, name: str) -> Object | None:
        raise NotImplementedError


def match(count: int) -> Object:
    values = [f"v{number}" for number in range(count)]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
    selector = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    return {"objectSelector": selector, "resourceRules": [rule] * count}


def policy(name: str, count: int = 1, version: str = "1") -> Object:
    return {"metadata": {"name": name, "resourceVersion": version}, "spec": {"matchConstraints": match(count)}}


def binding(name: str, policy: str, count: int = 1, version: str = "1") -> Object:
    spec = {"policyName": policy, "matchResources": match(count)}
    return {"metadata": {"name": name, "resourceVersion": version}, "spec": spec}


def policies(count: int) -> Callable[[], Any]:
    definitions, bindings = Listed(policy("p", count)), Listed(binding("b", "p", count))
    return PolicySource(lambda: definitions, lambda: bindings, Policy).policies


def hooks(count: int) -> Callable[[], Any]:
    given = match(count)
    webhook = {"name": "a.b", "rules": given["resourceRules"], "objectSelector": given["objectSelector"]}
    configurations = Listed({"metadata": {"name": "c"}, "webhooks": [webhook]})
    return HookSource(lambda: configurations).hooks


@pytest.mark.parametrize("make", [policies, hooks])
def test_long_rules_and_selectors_are_read_in_steps(make: Callable[[int], Callable[[], Any]]) -> None:
    few, many = (stretches(make(count)) for count in (200, 800))
    assert many.longest < max(1600, 2 * few.longest), many.where


def test_what_has_not_changed_is_not_read_again() -> None:
    definitions = Listed(policy("p"), policy("q"))
    bindings = Listed(binding("a", "p"), binding("b", "p"), binding("c", "q"))
    source = PolicySource(lambda: definitions, lambda: bindings, Policy)
    before = source.policies()
    assert [[bound.name for bound in made.bindings] for made in before] == [["a", "b"], ["c"]]
    kept = before[0].bindings[0]
    bindings.objects[1] = binding("b", "q", version="2")
    after = source.policies()
    assert [[bound.name for bound in made.bindings] for made in after] == [["a"], ["b", "c"]]
    assert after[0] is before[0] and after[0].bindings[0] is kept
    bindings.objects[0] = binding("a", "p", version="3")
    assert source.policies()[0].bindings[0] is not kept
