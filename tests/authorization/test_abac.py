"""ABAC: whom and what a line of the policy file concerns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kapi.authorization.abac import ABACAuthorizer, parse_policies
from kapi.authorization.interface import Attributes, Decision, NonResourceRule, ResourceRule
from kapi.machinery.tree import Object
from kapi.request.user import ALL_AUTHENTICATED, UserInfo

ALICE = UserInfo("alice", groups=("dev", ALL_AUTHENTICATED))
NOBODY = UserInfo("system:anonymous", groups=("system:unauthenticated",))


def authorizer(*policies: Object) -> ABACAuthorizer:
    return ABACAuthorizer(parse_policies("\n".join(map(json.dumps, policies))))


def line(**spec: Any) -> Object:
    return {"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec}


ANYTHING: Object = {"apiGroup": "*", "resource": "*", "namespace": "*"}
PODS: Object = {"apiGroup": "", "resource": "pods", "namespace": "n"}


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        ({"user": "alice"}, (True, False)),
        ({"user": "bob"}, (False, False)),
        ({"group": "dev"}, (True, False)),
        ({"group": "ops"}, (False, False)),
        ({"user": "alice", "group": "dev"}, (True, False)),
        ({"user": "alice", "group": "ops"}, (False, False)),
        ({"user": "bob", "group": "dev"}, (False, False)),
        ({"user": "*"}, (True, False)),
        ({"group": "*"}, (True, False)),
        ({"user": "bob", "group": "*"}, (True, False)),
        ({}, (False, False)),
    ],
)
def test_whom_a_line_concerns(subject: Object, allowed: tuple[bool, bool]) -> None:
    asked = authorizer(line(**subject, **ANYTHING))
    found = [asked.authorize(Attributes(user, "get", resource="pods")) for user in (ALICE, NOBODY)]
    assert tuple(verdict.decision is Decision.ALLOW for verdict in found) == allowed


@pytest.mark.parametrize(
    ("spec", "question", "allowed"),
    [
        (ANYTHING, {"verb": "delete", "resource": "pods", "namespace": "n"}, True),
        (PODS, {"verb": "delete", "resource": "pods", "namespace": "n"}, True),
        (PODS, {"verb": "delete", "resource": "pods", "namespace": "m"}, False),
        (PODS, {"verb": "delete", "resource": "secrets", "namespace": "n"}, False),
        (PODS, {"verb": "delete", "resource": "pods", "namespace": "n", "group": "apps"}, False),
        ({**PODS, "readonly": True}, {"verb": "get", "resource": "pods", "namespace": "n"}, True),
        ({**PODS, "readonly": True}, {"verb": "list", "resource": "pods", "namespace": "n"}, True),
        ({**PODS, "readonly": True}, {"verb": "watch", "resource": "pods", "namespace": "n"}, True),
        ({**PODS, "readonly": True}, {"verb": "update", "resource": "pods", "namespace": "n"}, False),
        (ANYTHING, {"verb": "get", "is_resource": False, "path": "/healthz"}, False),
        ({"nonResourcePath": "*"}, {"verb": "get", "is_resource": False, "path": "/healthz"}, True),
        ({"nonResourcePath": "/health*"}, {"verb": "get", "is_resource": False, "path": "/healthz"}, True),
        ({"nonResourcePath": "/health"}, {"verb": "get", "is_resource": False, "path": "/healthz"}, False),
        ({"nonResourcePath": "/healthz"}, {"verb": "get", "is_resource": False, "path": "/healthz"}, True),
        ({"nonResourcePath": "*"}, {"verb": "get", "resource": "pods", "namespace": "n"}, False),
    ],
)
def test_what_a_line_concerns(spec: Object, question: Object, allowed: bool) -> None:
    verdict = authorizer(line(user="alice", **spec)).authorize(Attributes(ALICE, **question))
    assert verdict == ((Decision.ALLOW, "", "") if allowed else (Decision.NO_OPINION, "No policy matched.", ""))


@pytest.mark.parametrize(
    ("policy", "resources", "paths"),
    [
        ({}, [("*", "*")], ["*"]),
        ({"readonly": True, "user": "alice"}, [("*", "*")], ["*"]),
        ({"resource": "pods"}, [("*", "pods")], []),
        ({"namespace": "n"}, [("*", "*")], []),
        ({"namespace": "m"}, [], []),
        ({"user": "bob"}, [], []),
        (line(group="dev", **PODS, nonResourcePath="/a"), [("", "pods")], ["/a"]),
    ],
)
def test_rules_of_a_user(policy: Object, resources: list[tuple[str, str]], paths: list[str]) -> None:
    """In lines without a version what is left out stands for anything."""
    verbs = ("get", "list", "watch") if policy.get("readonly") else ("*",)
    found = authorizer(policy).rules_for(ALICE, "n")
    assert found.resource_rules == [ResourceRule(verbs, (group,), (name,)) for group, name in resources]
    assert found.non_resource_rules == [NonResourceRule(verbs, (path,)) for path in paths]


def test_lines_that_are_no_policies_are_named() -> None:
    text = f"\n# comment\n{json.dumps(line(user='alice'))}\n"
    assert len(parse_policies(text)) == 1
    odd = {"apiVersion": "v1", "kind": "Policy"}
    for wrong in ("{", "5", json.dumps({**line(), "kind": "Odd"}), json.dumps(odd), '{"kind": "Policy"}'):
        with pytest.raises(ValueError, match="error reading policy file, line 4: "):
            parse_policies(f"{text}{wrong}")
