"""Who may let admission policies read parameters (KEP-3488)."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.registry.policy_parameters import _kind_of
from tests.authorization.secured import SecuredAPI

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
ALICE = "&{alice 2 [dev system:authenticated] map[]}"
CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def api() -> SecuredAPI:
    made = SecuredAPI()
    grant(made, "policies", {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]})
    return made


def grant(api: SecuredAPI, name: str, rule: Object) -> None:
    assert (
        api.ask_as("admin", "POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]}).code == 201
    )
    bound = {
        "metadata": {"name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
    }
    assert api.ask_as("admin", "POST", f"{RBAC}/clusterrolebindings", bound).code == 201


def policy(kind: Object | None, name: str = "p", **spec: Any) -> Object:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    wanted = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}], **spec}
    return {"metadata": {"name": name}, "spec": wanted if kind is None else {**wanted, "paramKind": kind}}


def binding(name: str = "b", **ref: Any) -> Object:
    ref = {"name": "c", "namespace": "default", "parameterNotFoundAction": "Deny", **ref}
    return {"metadata": {"name": name}, "spec": {"policyName": "p", "paramRef": ref, "validationActions": ["Deny"]}}


def causes(answer: Any) -> list[tuple[str, str]]:
    assert answer.code == 422, answer.json
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


def test_a_policy_reads_what_its_author_may_get(api: SecuredAPI) -> None:
    text = (
        f'Forbidden: user {ALICE} must have "get" permission on all objects of the referenced paramKind '
        "(kind=ConfigMap, apiVersion=v1)"
    )
    assert causes(api.ask_as("alice", "POST", POLICIES, policy(CONFIG_MAPS))) == [("spec.paramKind", text)]
    assert api.ask_as("alice", "POST", POLICIES, policy(None)).code == 201
    grant(api, "maps", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]})
    assert api.ask_as("alice", "POST", POLICIES, policy(CONFIG_MAPS, "q")).code == 201
    secrets = policy({"apiVersion": "v1", "kind": "Secret"}, "r")
    assert [field for field, _ in causes(api.ask_as("alice", "POST", POLICIES, secrets))] == ["spec.paramKind"]


def test_an_unknown_kind_asks_for_the_whole_group(api: SecuredAPI) -> None:
    body = policy({"apiVersion": "example.com/v1", "kind": "Limit"})
    assert len(causes(api.ask_as("alice", "POST", POLICIES, body))) == 1
    grant(api, "group", {"apiGroups": ["example.com"], "resources": ["*"], "verbs": ["get"]})
    assert api.ask_as("alice", "POST", POLICIES, body).code == 201


def test_other_faults_are_told_alone(api: SecuredAPI) -> None:
    body = policy(CONFIG_MAPS, validations=[])
    assert "spec.paramKind" not in [field for field, _ in causes(api.ask_as("alice", "POST", POLICIES, body))]


def test_a_kind_that_stays_is_not_asked_about_again(api: SecuredAPI) -> None:
    assert api.ask_as("admin", "POST", POLICIES, policy(CONFIG_MAPS)).code == 201
    patch = {"spec": {"failurePolicy": "Ignore"}}
    headers = {"Content_Type": "application/merge-patch+json"}
    assert api.ask_as("alice", "PATCH", f"{POLICIES}/p", patch, **headers).code == 200
    patch = {"spec": {"paramKind": {"kind": "Secret"}}}
    assert len(causes(api.ask_as("alice", "PATCH", f"{POLICIES}/p", patch, **headers))) == 1


def test_mutating_policies_are_asked_about_too(api: SecuredAPI) -> None:
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{op: "remove", path: "/a"}]'}}
    body = policy(CONFIG_MAPS, reinvocationPolicy="Never", mutations=[mutation])
    body["spec"].pop("validations")
    answer = api.ask_as("alice", "POST", f"{GROUP}/mutatingadmissionpolicies", body)
    assert [field for field, _ in causes(answer)] == ["spec.paramKind"]


def test_a_binding_reads_what_its_author_may_read(api: SecuredAPI) -> None:
    assert api.ask_as("admin", "POST", POLICIES, policy(CONFIG_MAPS)).code == 201
    ((field, text),) = causes(api.ask_as("alice", "POST", BINDINGS, binding()))
    # the two words change places upstream
    assert (field, text) == (
        "spec.paramRef",
        f'Forbidden: user get does not have "{ALICE}" permission on the object referenced by paramRef',
    )
    grant(api, "maps", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]})
    assert api.ask_as("alice", "POST", BINDINGS, binding()).code == 201
    some = {
        **binding("s"),
        "spec": {**binding()["spec"], "paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}},
    }
    ((_, text),) = causes(api.ask_as("alice", "POST", BINDINGS, some))
    assert text.startswith("Forbidden: user list does not have")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (None, "unable to get policy p"),
        ({"apiVersion": "example.com/v1", "kind": "Limit"}, "unable to resolve paramKind &{example.com/v1 Limit}"),
    ],
)
def test_a_binding_to_something_unknown_needs_everything(api: SecuredAPI, kind: Object | None, text: str) -> None:
    if kind is not None:
        assert api.ask_as("admin", "POST", POLICIES, policy(kind)).code == 201
    assert causes(api.ask_as("alice", "POST", BINDINGS, binding())) == [
        (
            "spec.paramRef",
            f"Forbidden: {text} to determine minimum required permissions and user {ALICE} does not have "
            '"get" permission for all groups, versions and resources',
        )
    ]
    assert api.ask_as("admin", "POST", BINDINGS, binding()).code == 201


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ({"apiVersion": "v1", "kind": "A"}, ("", "v1", "A")), ({"apiVersion": "a.io/v1", "kind": "A"}, ("a.io", "v1", "A")),
        ({"apiVersion": "a/b/c", "kind": "A"}, None), ({}, ("", "", "")),
    ],
)  # fmt: skip
def test_the_kind_of_parameters(reference: Object, kind: tuple[str, str, str] | None) -> None:
    assert _kind_of(reference) == kind


def test_a_policy_without_parameters_needs_everything_of_a_binding_that_has_some(api: SecuredAPI) -> None:
    assert api.ask_as("admin", "POST", POLICIES, policy(None)).code == 201
    assert [field for field, _ in causes(api.ask_as("alice", "POST", BINDINGS, binding()))] == ["spec.paramRef"]
    grant(api, "all", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]})
    assert api.ask_as("alice", "POST", BINDINGS, binding()).code == 201
