"""Versions before v1: views of the same stored objects, off unless ``--runtime-config`` turns them on."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.assembly.storage import enablement
from kapi.machinery.tree import Object
from kapi.options.options import Options
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.resources.previews import PREVIEWS
from kapi.servers.core.enablement import served as rows_served
from kapi.servers.core.install import core_rows
from kapi.testing.memory_api import MemoryAPI, succeed

NETWORKING, RESOURCE = "/apis/networking.k8s.io", "/apis/resource.k8s.io"


@pytest.fixture
def api() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started(rows=(*BUILT_IN, *PREVIEWS)))
    return started


def served(*flags: str) -> set[str]:
    flags_of = enablement(Options.from_command_line(flags))
    return {f"{row.group_version}/{row.plural}" for row in rows_served(core_rows(), flags_of)}


def test_they_are_off_by_default() -> None:
    assert not {name for name in served() if "beta" in name or "alpha" in name}


@pytest.mark.parametrize(
    ("flag", "on"),
    [
        ("api/beta=true", {"networking.k8s.io/v1beta1/ipaddresses", "storage.k8s.io/v1beta1/volumeattributesclasses"}),
        ("networking.k8s.io/v1beta1=true", {"networking.k8s.io/v1beta1/servicecidrs"}),
        ("resource.k8s.io/v1beta1/resourceslices=true", {"resource.k8s.io/v1beta1/resourceslices"}),
        ("api/alpha=true", {"admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicies"}),
    ],
)
def test_a_setting_turns_them_on(flag: str, on: set[str]) -> None:
    extra = served(f"--runtime-config={flag}") - served()
    assert on <= extra
    assert all("alpha" in name for name in extra) == ("alpha" in flag)
    if flag.count("/") == 2:
        assert extra == on


def test_both_versions_show_one_object(api: MemoryAPI) -> None:
    spec = {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}
    made = api.ask("POST", f"{NETWORKING}/v1beta1/ipaddresses", {"metadata": {"name": "10.0.0.9"}, "spec": spec})
    assert (made.code, made.json["apiVersion"]) == (201, "networking.k8s.io/v1beta1")
    assert made.json["metadata"]["managedFields"][0]["apiVersion"] == "networking.k8s.io/v1beta1"
    seen = api.ask("GET", f"{NETWORKING}/v1/ipaddresses/10.0.0.9").json
    assert (seen["apiVersion"], seen["spec"]) == ("networking.k8s.io/v1", spec)
    assert seen["metadata"]["uid"] == made.json["metadata"]["uid"]
    listed = api.ask("GET", f"{NETWORKING}/v1beta1/ipaddresses").json
    assert (listed["apiVersion"], len(listed["items"])) == ("networking.k8s.io/v1beta1", 1)


def test_a_deprecated_version_warns(api: MemoryAPI) -> None:
    answer = api.ask("GET", f"{NETWORKING}/v1beta1/servicecidrs")
    warning = answer.responseHeaders.getRawHeaders("Warning")
    assert warning == ['299 - "networking.k8s.io/v1beta1 ServiceCIDR is deprecated in v1.34+, unavailable in v1.37+"']
    answer = api.ask("GET", "/apis/storage.k8s.io/v1beta1/volumeattributesclasses")
    assert answer.responseHeaders.getRawHeaders("Warning") == [
        '299 - "storage.k8s.io/v1beta1 VolumeAttributesClass is deprecated in v1.34+, unavailable in v1.37+; '
        'use storage.k8s.io/v1 VolumeAttributesClass"'
    ]


def test_the_audit_log_tells_of_deprecated_versions(api: MemoryAPI) -> None:
    seen: list[Any] = []
    api.runner.chain.filters += (seen.append,)
    api.ask("GET", f"{NETWORKING}/v1beta1/servicecidrs")
    api.ask("GET", f"{NETWORKING}/v1/servicecidrs")
    assert [ctx.annotations for ctx in seen] == [{"k8s.io/deprecated": "true", "k8s.io/removed-release": "1.37"}, {}]


def test_the_status_of_a_deprecated_version_warns_too(api: MemoryAPI) -> None:
    cidr = {"metadata": {"name": "c"}, "spec": {"cidrs": ["10.9.0.0/24"]}}
    assert api.ask("POST", f"{NETWORKING}/v1beta1/servicecidrs", cidr).code == 201
    answer = api.ask("GET", f"{NETWORKING}/v1beta1/servicecidrs/c/status")
    assert answer.code == 200 and len(answer.responseHeaders.getRawHeaders("Warning") or []) == 1


def test_a_policy_in_beta_does_not_warn(api: MemoryAPI) -> None:
    answer = api.ask("GET", "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies")
    assert answer.code == 200 and answer.responseHeaders.getRawHeaders("Warning") is None


def test_the_first_version_of_bindings_denies_without_parameters(api: MemoryAPI) -> None:
    group = "/apis/admissionregistration.k8s.io"
    spec = {"policyName": "p", "paramRef": {"name": "x"}}
    body = {"metadata": {"name": "b"}, "spec": spec}
    made = api.ask("POST", f"{group}/v1alpha1/mutatingadmissionpolicybindings", body)
    assert made.json["spec"]["paramRef"] == {"name": "x", "parameterNotFoundAction": "Deny"}
    for name, reference in (("d", {"name": "x", "parameterNotFoundAction": "Allow"}), ("e", None)):
        body = {
            "metadata": {"name": name},
            "spec": {"policyName": "p", **({"paramRef": reference} if reference else {})},
        }
        made = api.ask("POST", f"{group}/v1alpha1/mutatingadmissionpolicybindings", body)
        assert (made.code, made.json["spec"].get("paramRef")) == (201, reference)
    body = {"metadata": {"name": "c"}, "spec": spec}
    refused = api.ask("POST", f"{group}/v1beta1/mutatingadmissionpolicybindings", body)
    assert (refused.code, refused.json["details"]["causes"][0]["field"]) == (
        422,
        "spec.paramRef.parameterNotFoundAction",
    )


def test_what_has_ended_is_a_view_of_the_same_objects(api: MemoryAPI) -> None:
    """Policies were served in v1beta1 until 1.33."""
    group = "/apis/admissionregistration.k8s.io"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.data.size() < 3", "reason": "Forbidden"}],
    }
    body = {"metadata": {"name": "p"}, "spec": spec}
    made = api.ask("POST", f"{group}/v1beta1/validatingadmissionpolicies", body)
    assert (made.code, made.json["apiVersion"]) == (201, "admissionregistration.k8s.io/v1beta1")
    assert made.responseHeaders.getRawHeaders("Warning") == [
        '299 - "admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy is deprecated in v1.31+, unavailable in v1.34+"'
    ]
    stored = api.ask("GET", f"{group}/v1/validatingadmissionpolicies/p").json
    assert stored["spec"] == made.json["spec"]
    assert (stored["spec"]["failurePolicy"], stored["spec"]["matchConstraints"]["matchPolicy"]) == (
        "Fail",
        "Equivalent",
    )
    applied = api.ask(
        "PATCH", f"{group}/v1beta1/validatingadmissionpolicies/p?fieldManager=me",
        {"apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
         "spec": {"variables": [{"name": "v", "expression": "1"}]}},
        type="application/apply-patch+yaml",
    )  # fmt: skip
    assert (applied.code, applied.json["spec"]["variables"]) == (200, [{"name": "v", "expression": "1"}])
    binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    bindings = f"{group}/v1beta1/validatingadmissionpolicybindings"
    assert api.ask("POST", bindings, binding).code == 201
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    assert api.ask("GET", f"{bindings}/b", headers=accept).written.startswith(b"k8s\0")
    wrong = api.ask("POST", bindings, {**binding, "spec": {"policyName": 1}})
    text = (
        'ValidatingAdmissionPolicyBinding in version "v1beta1" cannot be handled as a ValidatingAdmissionPolicyBinding: '
        "json: cannot unmarshal number into Go struct field ValidatingAdmissionPolicyBindingSpec.spec.policyName of type string"
    )
    assert (wrong.code, wrong.json["message"]) == (400, text)


REQUEST: Object = {"name": "r", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 2}
EITHER: Object = {
    "name": "e",
    "firstAvailable": [{"name": "a", "deviceClassName": "c", "allocationMode": "All"}],
}


def test_a_flat_request_is_an_exact_one(api: MemoryAPI) -> None:
    body = {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [REQUEST, EITHER]}}}
    made = api.ask("POST", f"{RESOURCE}/v1beta1/namespaces/default/resourceclaims", body)
    assert made.code == 201
    requests = made.json["spec"]["devices"]["requests"]
    assert requests == [REQUEST, {**EITHER, "deviceClassName": ""}]
    now = api.ask("GET", f"{RESOURCE}/v1/namespaces/default/resourceclaims/x").json
    exactly = {name: value for name, value in REQUEST.items() if name != "name"}
    assert now["spec"]["devices"]["requests"] == [{"name": "r", "exactly": exactly}, EITHER]
    between = api.ask("GET", f"{RESOURCE}/v1beta2/namespaces/default/resourceclaims/x").json
    assert between["spec"] == now["spec"]


def test_a_flat_request_gets_defaults(api: MemoryAPI) -> None:
    spec = {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}}
    body = {"metadata": {"name": "t"}, "spec": spec}
    made = api.ask("POST", f"{RESOURCE}/v1beta1/namespaces/default/resourceclaimtemplates", body)
    assert made.json["spec"]["spec"]["devices"]["requests"] == [
        {"name": "r", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    ]


def test_a_request_for_nothing_is_refused_in_every_version(api: MemoryAPI) -> None:
    body = {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [{"name": "r"}]}}}
    for version in ("v1", "v1beta2", "v1beta1"):
        answer = api.ask("POST", f"{RESOURCE}/{version}/namespaces/default/resourceclaims", body)
        assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "spec.devices.requests[0]")


def test_a_basic_device_is_a_device(api: MemoryAPI) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    basic = {"attributes": {"model": {"string": "m"}}, "capacity": {"memory": {"value": "1Gi"}}}
    spec = {
        "driver": "d.example.com",
        "pool": pool,
        "nodeName": "n1",
        "allNodes": False,
        "devices": [{"name": "dev", "basic": basic}],
    }
    made = api.ask("POST", f"{RESOURCE}/v1beta1/resourceslices", {"metadata": {"name": "s"}, "spec": spec})
    assert made.code == 201, made.json
    assert made.json["spec"]["devices"] == [{"name": "dev", "basic": basic}]
    now = api.ask("GET", f"{RESOURCE}/v1/resourceslices/s").json
    assert now["spec"] == {
        "driver": "d.example.com", "pool": pool, "nodeName": "n1", "devices": [{"name": "dev", **basic}],
    }  # fmt: skip
    chosen = api.ask("GET", f"{RESOURCE}/v1beta1/resourceslices?fieldSelector=spec.nodeName%3Dn1").json
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["s"]


@pytest.mark.parametrize("row", PREVIEWS, ids=lambda row: f"{row.group_version}/{row.plural}")
def test_tables_are_those_of_the_stable_version(api: MemoryAPI, row: Resource) -> None:
    stable = next(one for one in (*BUILT_IN, *PREVIEWS) if one.group_kind == row.group_kind and one.to_storage is None)
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

    def columns(version: str) -> Any:
        return api.ask("GET", f"/apis/{row.group}/{version}/{row.plural}", headers=accept).json["columnDefinitions"]

    assert columns(row.version) == columns(stable.version)


def test_a_change_in_one_version_is_told_to_watchers_of_the_other(api: MemoryAPI) -> None:
    watch = api.ask("GET", f"{NETWORKING}/v1beta1/servicecidrs?watch=true")
    cidr = {"metadata": {"name": "c"}, "spec": {"cidrs": ["10.9.0.0/24"]}}
    assert api.ask("POST", f"{NETWORKING}/v1/servicecidrs", cidr).code == 201
    api.turn()
    assert b'"apiVersion":"networking.k8s.io/v1beta1"' in watch.written


def test_each_kind_that_is_stored_has_the_hash_of_its_storage_version() -> None:
    """As Kubernetes: the first 8 bytes of the SHA-256 of group/version/kind, the same for all versions of the kind."""
    rows = {(row.group, row.version, row.plural): row for row in (*BUILT_IN, *PREVIEWS)}
    hashes = {key: row.storage_version_hash for key, row in rows.items()}
    assert hashes["", "v1", "configmaps"] == "qFsyl6wFWjQ="
    assert hashes["autoscaling", "v1", "horizontalpodautoscalers"] == "qwQve8ut294="  # stored as v2
    assert hashes["events.k8s.io", "v1", "events"] == hashes["", "v1", "events"] == "r2yiGXH7wu8="
    assert hashes["coordination.k8s.io", "v1alpha2", "leasecandidates"] == "lvME0iHWE20="  # stored as v1beta1
    assert {key[2] for key, row in rows.items() if bool(row.handler) == bool(row.storage_version_hash)} == set()
