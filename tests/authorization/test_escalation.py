"""Nobody grants what he does not hold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.authorization.rbac.authorizer import RBACAuthorizer
from kapi.authorization.rbac.escalation import EscalationCheck
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import Forbidden, NotFound, StatusError
from kapi.request.user import UserInfo
from tests.authorization.policies import authorizer, binding, role, rule, user

ALICE = UserInfo("alice", groups=("dev", "system:authenticated"))
GROUP = "rbac.authorization.k8s.io"


def checks(rbac: RBACAuthorizer) -> EscalationCheck:
    return EscalationCheck(rbac, rbac)


def check(rbac: RBACAuthorizer, plural: str, obj: Any, old: Any = None, who: UserInfo = ALICE) -> None:
    namespace = obj["metadata"].get("namespace", "")
    coroutine = checks(rbac).check(GroupResource(GROUP, plural), who, namespace, obj["metadata"]["name"], obj, old)
    with pytest.raises(StopIteration):  # nothing here has to wait
        coroutine.send(None)


def test_without_an_authorizer_nobody_may_escalate_or_bind() -> None:
    rbac = held(rule("bind escalate", "roles", GROUP))
    new = binding("new", "strong", user("bob"), namespace="x")
    asked = EscalationCheck(rbac, None).check(GroupResource(GROUP, "rolebindings"), ALICE, "x", "new", new, None)
    with pytest.raises(Forbidden):
        asked.send(None)
    check(rbac, "rolebindings", new)


def held(*rules: Any) -> RBACAuthorizer:
    return authorizer(
        role("own", *rules, namespace="x"),
        binding("own", "own", user("alice"), namespace="x"),
        role("strong", rule("get list", "secrets"), namespace="x"),
    )


def test_what_is_held_may_be_granted() -> None:
    check(held(rule("get list", "pods")), "roles", role("new", rule("get", "pods"), namespace="x"))


def test_what_is_missing_is_listed_by_resource() -> None:
    with pytest.raises(Forbidden) as caught:
        check(held(rule("get", "pods")), "roles", role("new", rule("get list", "pods secrets"), namespace="x"))
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "new" is forbidden: user "alice" (groups=["dev" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )


def test_a_wildcard_is_more_than_all_known_verbs() -> None:
    with pytest.raises(Forbidden):
        check(
            held(rule("get list watch create update patch delete", "pods")),
            "roles",
            role("new", rule("*", "pods"), namespace="x"),
        )


def test_a_rule_for_names_covers_no_rule_for_all() -> None:
    with pytest.raises(Forbidden):
        check(held(rule("get", "pods", names="a")), "roles", role("new", rule("get", "pods"), namespace="x"))


def test_escalate_and_masters_lift_the_check() -> None:
    check(held(rule("escalate", "roles", GROUP)), "roles", role("new", rule("*", "*", "*"), namespace="x"))
    check(
        held(),
        "roles",
        role("new", rule("*", "*", "*"), namespace="x"),
        who=UserInfo("root", groups=("system:masters",)),
    )


def test_binding_a_stronger_role_needs_the_bind_verb() -> None:
    new = binding("new", "strong", user("carol"), namespace="x")
    with pytest.raises(Forbidden):
        check(held(rule("get", "pods")), "rolebindings", new)
    check(held(rule("bind", "roles", GROUP, names="strong")), "rolebindings", new)


def test_binding_a_role_that_is_not_there() -> None:
    with pytest.raises(NotFound, match='rolebindings.rbac.authorization.k8s.io "nosuch" not found'):
        check(held(), "rolebindings", binding("new", "nosuch", user("alice"), namespace="x"))


def test_binding_what_is_no_role() -> None:
    odd = binding("new", "own", user("alice"), namespace="x", kind="Odd")
    with pytest.raises(StatusError) as caught:
        check(held(rule("*", "*", "*")), "rolebindings", odd)
    error = caught.value
    assert (error.code, error.reason, error.message) == (500, "", 'unsupported role reference kind: "Odd"')


def test_labels_of_a_stronger_role_are_not_for_the_weak_but_finalizers_are_for_the_collector() -> None:
    old = role("strong", rule("get list", "secrets"), namespace="x")
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    with pytest.raises(Forbidden):
        check(held(), "roles", labelled, old)
    check(held(), "roles", {**old, "metadata": {**old["metadata"], "finalizers": ["a/b"]}}, old)
    check(held(), "roles", {**old, "metadata": {**old["metadata"], "labels": {}}}, old)
    other = {**old, "metadata": {**old["metadata"], "finalizers": ["a/b"], "resourceVersion": "7"}}
    with pytest.raises(Forbidden):
        check(held(), "roles", other, old)


def test_aggregation_needs_everything() -> None:
    aggregated = {**role("sum"), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
        check(held(), "clusterroles", aggregated)


def test_an_authorizer_that_has_to_wait() -> None:
    class Slow:
        async def authorize(self, attributes: Attributes) -> Verdict:
            await asyncio.sleep(0)
            return Verdict(Decision.ALLOW if attributes.verb == "bind" else Decision.NO_OPINION)

    slow = EscalationCheck(held(), Slow())
    new = binding("new", "strong", user("carol"), namespace="x")
    asyncio.run(slow.check(GroupResource(GROUP, "rolebindings"), ALICE, "x", "new", new, None))
