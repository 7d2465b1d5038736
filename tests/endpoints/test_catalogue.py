"""What every row of the catalogue answers, whatever its type."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources.test_every_row import LEAST, NAMES

STORED = [row for row in BUILT_IN if not row.handler]


@pytest.fixture(scope="module")
def api() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started())
    return started


def path_of(row: Resource) -> str:
    prefix = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    return f"{prefix}/namespaces/n/{row.plural}" if row.namespaced else f"{prefix}/{row.plural}"


def named(row: Resource) -> str:
    return f"{row.group or 'core'}/{row.version}/{row.plural}"


@pytest.mark.parametrize("row", STORED, ids=named)
def test_an_empty_list_is_typed(api: MemoryAPI, row: Resource) -> None:
    answer = api.ask("GET", path_of(row)).json
    assert (answer["kind"], answer["apiVersion"], answer["items"]) == (f"{row.kind}List", str(row.group_version), [])


@pytest.mark.parametrize("row", STORED, ids=named)
def test_a_table_has_columns(api: MemoryAPI, row: Resource) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = api.ask("GET", path_of(row), headers=accept).json
    assert table["kind"] == "Table" and table["columnDefinitions"][0]["name"]


@pytest.mark.parametrize("row", STORED, ids=named)
def test_what_is_not_there_is_not_found(api: MemoryAPI, row: Resource) -> None:
    for method in ("GET", "DELETE"):
        answer = api.ask(method, f"{path_of(row)}/none")
        assert (answer.code, answer.json["details"]["name"]) == (404, "none")


@pytest.mark.parametrize("row", STORED, ids=named)
def test_a_body_of_another_kind_is_refused(api: MemoryAPI, row: Resource) -> None:
    other = {"kind": "Secret", "apiVersion": "v1"} if row.kind != "Secret" else {"kind": "Pod", "apiVersion": "v1"}
    answer = api.ask("POST", path_of(row), {**other, "metadata": {"name": "x"}})
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("row", STORED, ids=named)
def test_a_method_that_the_row_does_not_list_is_not_allowed(api: MemoryAPI, row: Resource) -> None:
    assert api.ask("PUT", path_of(row), {}).code == 405
    assert api.ask("POST", f"{path_of(row)}/x", {}).code == 405


@pytest.mark.parametrize("row", [row for row in STORED if not row.namespaced], ids=named)
def test_a_cluster_scoped_resource_is_not_reached_through_a_namespace(api: MemoryAPI, row: Resource) -> None:
    """CVE-2019-11247."""
    prefix = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    if row.plural == "namespaces":
        return
    assert api.ask("GET", f"{prefix}/namespaces/n/{row.plural}").code == 404
    assert api.ask("GET", f"{prefix}/namespaces/n/{row.plural}/x").code == 404


CREATED = [row for row in STORED if {"create", "get", "update", "patch", "delete"} <= set(row.verbs)]
ROLE = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
EXPRESSION = {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}}  # fmt: skip
LEAST_OF_ALL: dict[str, dict[str, Any]] = {
    **LEAST,
    "PersistentVolumeClaim": {"spec": CLAIM},
    "PersistentVolume": {"spec": VOLUME},
    "IngressClass": {"spec": {"controller": "example.com/c"}},
    "ServiceCIDR": {"spec": {"cidrs": ["10.9.0.0/24"]}},
    "ClusterRoleBinding": ROLE,
    "RoleBinding": ROLE,
    "CSIStorageCapacity": {"storageClassName": "s"},
    "VolumeAttachment": {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}},
    "VolumeAttributesClass": {"driverName": "d", "parameters": {"a": "b"}},
    "ValidatingAdmissionPolicy": {"spec": EXPRESSION},
    "ValidatingAdmissionPolicyBinding": {"spec": {"policyName": "p", "validationActions": ["Deny"]}},
    "MutatingAdmissionPolicyBinding": {"spec": {"policyName": "p"}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": []},
    "ResourceSlice": {"spec": {"driver": "d.example.com", "pool": POOL, "nodeName": "n"}},
    "FlowSchema": {"spec": {"priorityLevelConfiguration": {"name": "global-default"}}},
    "PriorityLevelConfiguration": {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}},
}
NEW_EVENT = {
    "regarding": {"namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "R", "action": "A",
    "reportingController": "example.com/c", "reportingInstance": "c-1",
}  # fmt: skip
# whose deletion waits for somebody
ODD = {"Namespace", "Node", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition"}


@pytest.mark.parametrize("row", CREATED, ids=named)
def test_the_life_of_an_object(row: Resource) -> None:
    """Created, read, written back, changed, listed, deleted; or refused with causes when the least is too little."""
    api: MemoryAPI = succeed(MemoryAPI.started())
    name = NAMES.get(row.kind, "x")
    metadata = {"name": name} | ({"namespace": "n"} if row.namespaced else {})
    body = {
        "kind": row.kind,
        "apiVersion": str(row.group_version),
        "metadata": metadata,
        **(NEW_EVENT if row.group == "events.k8s.io" else LEAST_OF_ALL.get(row.kind, {})),
    }
    made = api.ask("POST", path_of(row), body)
    if made.code != 201:
        assert (made.code, made.json["reason"]) == (422, "Invalid"), made.json
        assert made.json["details"]["causes"] and row.kind not in LEAST_OF_ALL
        return
    path = f"{path_of(row)}/{name}"
    stored = api.ask("GET", path).json
    assert stored == made.json and stored["metadata"]["uid"]
    same = api.ask("PUT", path, stored).json
    assert same["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"], "nothing changed"
    labels = {"metadata": {"labels": {"l": "v"}}}
    patched = api.ask("PATCH", path, labels, type="application/merge-patch+json").json
    assert patched["metadata"]["labels"]["l"] == "v"
    assert patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]
    if row.kind != "EndpointSlice":  # where labels count as content
        assert patched["metadata"].get("generation") == stored["metadata"].get("generation")
    stale = api.ask("PUT", path, stored | {"metadata": stored["metadata"] | {"labels": {"l": "w"}}})
    assert (stale.code, stale.json["reason"]) == (409, "Conflict")
    listed = api.ask("GET", f"{path_of(row)}?labelSelector=l%3Dv").json["items"]
    assert [entry["metadata"]["name"] for entry in listed] == [name]
    assert api.ask("DELETE", f"{path}?propagationPolicy=Background").code in (200, 202)
    if row.kind not in ODD:
        assert api.ask("GET", path).code == 404


def test_a_path_that_begins_with_two_slashes_is_no_resource(api: MemoryAPI) -> None:
    assert api.ask("GET", "/api/v1/namespaces/n/configmaps").code == 200
    assert api.ask("GET", "//api/v1/namespaces/n/configmaps").code == 404
