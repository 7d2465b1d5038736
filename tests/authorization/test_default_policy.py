"""The default roles and bindings, and what reconciliation does to them."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.authorization.rbac import bootstrap
from kapi.authorization.rbac.bootstrap import (
    reconcile_policy,
    reconciled_binding,
    reconciled_role,
)
from kapi.authorization.rbac.bootstrap_roles import DEFAULT_GATES, default_policy
from kapi.machinery.tree import copy
from kapi.testing.memory_api import succeed
from tests.authorization.secured import SecuredAPI

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
DEFAULT = default_policy()
EVERY_ROLE = (*DEFAULT.cluster_roles, *DEFAULT.controller_roles)
BINDINGS = DEFAULT.cluster_role_bindings


@pytest.fixture(scope="module")
def api() -> SecuredAPI:
    return SecuredAPI()


def test_every_binding_names_a_role_that_is_there() -> None:
    names = {role["metadata"]["name"] for role in EVERY_ROLE}
    assert all(binding["roleRef"]["name"] in names for binding in BINDINGS)
    local = {(role["metadata"]["namespace"], role["metadata"]["name"]) for role in DEFAULT.roles}
    for binding in DEFAULT.role_bindings:
        assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) in local


def test_users_roles_do_not_write_endpoints() -> None:
    """CVE-2021-25740: whoever may edit a namespace may not point a Service at foreign addresses."""
    for role in DEFAULT.cluster_roles:
        if role["metadata"]["name"].startswith("system:aggregate-to-"):
            for rule in role["rules"] or ():
                if {"endpoints", "endpointslices"} & set(rule.get("resources") or ()):
                    assert set(rule["verbs"]) <= {"get", "list", "watch"}, role["metadata"]["name"]


def test_nobody_but_masters_holds_everything() -> None:
    full = {
        role["metadata"]["name"]
        for role in EVERY_ROLE
        if any("*" in rule["verbs"] and "*" in (rule.get("resources") or ()) for rule in role["rules"] or ())
    }
    holders = [
        subject
        for binding in BINDINGS
        if binding["roleRef"]["name"] in full - {"system:controller:generic-garbage-collector"}
        for subject in binding.get("subjects") or ()
        if subject["kind"] != "ServiceAccount"
    ]
    assert [holder["name"] for holder in holders] == ["system:masters"]


def test_the_store_has_them_and_a_second_start_changes_nothing(api: SecuredAPI) -> None:
    before = api.ask_as("admin", "GET", ROLES).json
    assert len(before["items"]) == len(EVERY_ROLE)
    succeed(reconcile_policy(api.registry.client))
    assert api.ask_as("admin", "GET", ROLES).json["metadata"] == before["metadata"]


def test_what_was_taken_away_comes_back_and_what_was_added_stays(api: SecuredAPI) -> None:
    extra = {"verbs": ["get"], "apiGroups": ["x"], "resources": ["y"]}
    uri = f"{ROLES}/system:basic-user"
    original = api.ask_as("admin", "GET", uri).json["rules"]
    patch = {"rules": [extra]}
    api.ask("PATCH", uri, patch, headers={"Authorization": "Bearer admin"}, type="application/merge-patch+json")
    succeed(reconcile_policy(api.registry.client))
    rules = api.ask_as("admin", "GET", uri).json["rules"]
    assert rules[0] == extra
    granted = {(verb, resource) for rule in rules[1:] for verb in rule["verbs"] for resource in rule["resources"]}
    assert granted == {(verb, res) for rule in original for verb in rule["verbs"] for res in rule["resources"]}


def test_what_an_administrator_protects_is_left_alone(api: SecuredAPI) -> None:
    uri = f"{ROLES}/system:discovery"
    patch = {"metadata": {"annotations": {bootstrap.AUTOUPDATE: "false"}}, "rules": None}
    api.ask("PATCH", uri, patch, headers={"Authorization": "Bearer admin"}, type="application/merge-patch+json")
    succeed(reconcile_policy(api.registry.client))
    assert not api.ask_as("admin", "GET", uri).json["rules"]


def test_a_binding_to_another_role_is_made_anew(api: SecuredAPI) -> None:
    uri = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    name = "system:public-info-viewer"
    binding: dict[str, Any] = copy(api.ask_as("admin", "GET", f"{uri}/{name}").json)
    assert api.ask_as("admin", "DELETE", f"{uri}/{name}").code == 200
    binding["metadata"] = {"name": name}
    binding["roleRef"]["name"] = "cluster-admin"
    assert api.ask_as("admin", "POST", uri, binding).code == 201
    succeed(reconcile_policy(api.registry.client))
    assert api.ask_as("admin", "GET", f"{uri}/{name}").json["roleRef"]["name"] == name


def test_missing_selectors_and_subjects_are_added() -> None:
    admin = next(role for role in DEFAULT.cluster_roles if role["metadata"]["name"] == "admin")
    poor = copy(admin)
    poor["aggregationRule"]["clusterRoleSelectors"] = []
    merged = reconciled_role(poor, admin)
    assert merged is not None and merged["aggregationRule"] == admin["aggregationRule"]
    assert reconciled_role(admin, admin) is None
    binding = BINDINGS[0]
    other = {**copy(binding), "subjects": [{"kind": "User", "name": "x"}]}
    joined = reconciled_binding(other, binding)
    assert joined is not None and joined["subjects"] == [*other["subjects"], *binding["subjects"]]


def test_a_role_that_is_none_of_several_is_no_longer_aggregated() -> None:
    basic = next(role for role in DEFAULT.cluster_roles if role["metadata"]["name"] == "system:basic-user")
    aggregated = {**copy(basic), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    assert reconciled_role(aggregated, basic) == basic
    own = {"apiGroups": [""], "verbs": ["get"], "resources": ["deployments"]}
    merged = reconciled_role({**aggregated, "rules": [own]}, basic)
    assert merged is not None and "aggregationRule" not in merged
    assert merged["rules"][0] == own and reconciled_role(merged, basic) is None


def _replaced(api: SecuredAPI, uri: str, name: str, change: Any) -> None:
    made = api.ask_as("admin", "GET", f"{uri}/{name}").json
    made["metadata"] = {"name": name, "labels": made["metadata"].get("labels")}
    change(made)
    assert api.ask_as("admin", "DELETE", f"{uri}/{name}").code == 200
    assert api.ask_as("admin", "POST", uri, made).code == 201


def test_a_binding_that_was_split_inherits_what_an_administrator_made_of_the_first() -> None:
    api = SecuredAPI()
    uri = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    annotations = {bootstrap.AUTOUPDATE: "false", "mine": "yes"}
    users = [{"kind": "User", "apiGroup": bootstrap.GROUP, "name": "bob"}]

    def change(binding: Any) -> None:
        binding["metadata"]["annotations"] = annotations
        binding["subjects"] = users

    _replaced(api, uri, "system:discovery", change)
    assert api.ask_as("admin", "DELETE", f"{uri}/system:public-info-viewer").code == 200
    succeed(reconcile_policy(api.registry.client))
    made = api.ask_as("admin", "GET", f"{uri}/system:public-info-viewer").json
    assert made["metadata"]["annotations"] == annotations
    assert made["subjects"] == users and made["roleRef"]["name"] == "system:public-info-viewer"


def test_a_role_that_became_an_aggregated_one_keeps_what_an_administrator_added() -> None:
    api = SecuredAPI()
    extra = {"verbs": ["get"], "apiGroups": ["x"], "resources": ["y"]}

    def change(role: Any) -> None:
        del role["aggregationRule"]
        role["rules"] = [extra]

    _replaced(api, ROLES, "view", change)
    assert api.ask_as("admin", "DELETE", f"{ROLES}/system:aggregate-to-view").code == 200
    succeed(reconcile_policy(api.registry.client))
    made = api.ask_as("admin", "GET", f"{ROLES}/system:aggregate-to-view").json
    assert extra in made["rules"] and len(made["rules"]) > 1
    assert made["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert api.ask_as("admin", "GET", f"{ROLES}/view").json["aggregationRule"]
    succeed(reconcile_policy(api.registry.client))  # with both roles there, nothing is inherited any more
    assert api.ask_as("admin", "GET", f"{ROLES}/system:aggregate-to-view").json["metadata"] == made["metadata"]


def _roles(*gates: str) -> dict[str, Any]:
    roles = default_policy(DEFAULT_GATES | {*gates})
    return {role["metadata"]["name"]: role["rules"] for role in (*roles.cluster_roles, *roles.controller_roles)}


@pytest.mark.parametrize(
    ("gates", "role", "resource"),
    [
        (["PodCertificateRequest"], "system:controller:podcertificaterequestcleaner", "podcertificaterequests"),
        (["PodCertificateRequest"], "system:node", "podcertificaterequests"),
        (["ClusterTrustBundle"], "system:cluster-trust-bundle-discovery", "clustertrustbundles"),
        (["ClusterTrustBundle"], "system:node", "clustertrustbundles"),
        (["DRADeviceTaintRules"], "system:controller:device-taint-eviction-controller", "devicetaintrules"),
        (["GenericWorkload"], "system:kube-scheduler", "podgroups"),
        (["GenericWorkload"], "system:aggregate-to-edit", "workloads"),
        (["GenericWorkload"], "system:aggregate-to-view", "podgroups/status"),
        (["GenericWorkload"], "system:controller:podgroup-protection-controller", "podgroups"),
        (["GenericWorkload", "WorkloadWithJob"], "system:controller:job-controller", "workloads"),
        (["StorageVersionAPI"], "system:controller:storage-version-garbage-collector", "storageversions"),
        (["StorageVersionMigrator"], "system:controller:storage-version-migrator-controller", "*"),
        (
            ["StorageVersionMigrator"],
            "system:controller:storage-version-migrator-controller",
            "customresourcedefinitions/status",
        ),
    ],
)
def test_components_may_use_what_a_feature_gate_adds(gates: list[str], role: str, resource: str) -> None:
    def covered(rules: list[Any]) -> bool:
        return any(resource in rule.get("resources", ()) for rule in rules)

    assert not covered(_roles().get(role, []))
    assert covered(_roles(*gates)[role])


def test_a_role_needs_all_its_gates() -> None:
    without = default_policy((DEFAULT_GATES | {"StorageVersionAPI"}) - {"APIServerIdentity"})
    assert not any("storage-version" in role["metadata"]["name"] for role in without.controller_roles)


def test_controllers_of_gates_and_service_accounts_have_their_bindings() -> None:
    bindings = {
        binding["metadata"]["name"]: binding
        for binding in default_policy(DEFAULT_GATES | {"ClusterTrustBundle"}).cluster_role_bindings
    }
    publisher = bindings["system:controller:kube-apiserver-serving-clustertrustbundle-publisher"]["subjects"]
    assert [subject["name"] for subject in publisher] == ["kube-apiserver-serving-clustertrustbundle-publisher"]
    readers = bindings["system:cluster-trust-bundle-discovery"]["subjects"]
    assert [subject["name"] for subject in readers] == ["system:serviceaccounts"]
