"""Who may allocate claims and tell the state of devices (upstream gate ``DRAResourceClaimGranularStatusAuthorization``)."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.registry.guards import allocated_node
from tests.authorization.secured import SecuredAPI

GROUP = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def on_node(name: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "one"}
ALLOCATION = {"devices": {"results": [RESULT]}, "nodeSelector": on_node("node")}
DEVICE = {"driver": "d.example.com", "pool": "p", "device": "one", "data": {"a": 1}}


@pytest.fixture
def api() -> SecuredAPI:
    made = SecuredAPI()
    assert made.ask_as("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}}).code == 201
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    assert made.ask_as("admin", "POST", GROUP, claim).code == 201
    grant(
        made, "status", {"verbs": ["update", "patch", "get"], "resources": ["resourceclaims", "resourceclaims/status"]}
    )
    return made


def grant(api: SecuredAPI, name: str, rule: Object, user: str = "alice") -> None:
    role = {"metadata": {"name": name}, "rules": [{"apiGroups": ["resource.k8s.io"], **rule}]}
    assert api.ask_as("admin", "POST", f"{RBAC}/clusterroles", role).code == 201
    kind = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    bound = {"metadata": {"name": name}, "subjects": [kind], "roleRef": ref}
    assert api.ask_as("admin", "POST", f"{RBAC}/clusterrolebindings", bound).code == 201


def put(api: SecuredAPI, token: str, **status: Any) -> Any:
    claim = api.ask_as("admin", "GET", f"{GROUP}/c").json
    return api.ask_as(token, "PUT", f"{GROUP}/c/status", {**claim, "status": status})


def causes(answer: Any) -> list[tuple[str, str]]:
    assert answer.code == 422
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


def test_allocating_is_binding(api: SecuredAPI) -> None:
    text = (
        "Forbidden: changing status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden: '
        'User "alice" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )
    assert causes(put(api, "alice", allocation=ALLOCATION)) == [("status.allocation", text)]
    grant(api, "binding", {"verbs": ["update"], "resources": ["resourceclaims/binding"]})
    assert put(api, "alice", allocation=ALLOCATION).code == 200
    assert put(api, "bob", allocation=ALLOCATION).code == 403


def test_the_refusal_stands_before_other_faults(api: SecuredAPI) -> None:
    found = causes(put(api, "alice", allocation={"devices": {"results": [{**RESULT, "pool": ""}]}}))
    assert [field for field, _ in found] == ["status.allocation", "status.allocation.devices.results[0].pool"]


def test_the_state_of_devices_is_the_drivers(api: SecuredAPI) -> None:
    assert put(api, "admin", allocation=ALLOCATION).code == 200
    text = (
        'Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        'verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io "d.example.com" is forbidden: '
        'User "alice" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" '
        'in the namespace "default"'
    )
    assert causes(put(api, "alice", allocation=ALLOCATION, devices=[DEVICE])) == [("status.devices", text)]
    rule = {"resources": ["resourceclaims/driver"], "resourceNames": ["d.example.com"]}
    grant(api, "driver", {**rule, "verbs": ["arbitrary-node:update"]})
    assert put(api, "alice", allocation=ALLOCATION, devices=[DEVICE]).code == 200
    assert put(api, "alice", allocation=ALLOCATION).code == 200  # and gone again


def test_a_driver_on_the_node_has_a_verb_of_its_own(api: SecuredAPI) -> None:
    assert put(api, "admin", allocation=ALLOCATION).code == 200
    name = "system:serviceaccount:default:driver"
    for i, verbs in enumerate((["update", "get"], ["associated-node:update"])):
        rule = {"verbs": verbs, "resources": ["resourceclaims/status", "resourceclaims/driver"]}
        grant(api, f"own{i}", rule, name)
    claim = api.ask_as("admin", "GET", f"{GROUP}/c").json
    claim["status"]["devices"] = [DEVICE]

    def ask(node: str) -> int:
        extra = {"Impersonate-User": name, "Impersonate-Extra-authentication.kubernetes.io%2fnode-name": node}
        headers = {"Authorization": "Bearer admin", **extra}
        return api.ask("PUT", f"{GROUP}/c/status", claim, headers=headers).code

    assert (ask("other"), ask("node")) == (422, 200)


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"nodeSelectorTerms": []},
        {"nodeSelectorTerms": [*on_node("a")["nodeSelectorTerms"], *on_node("b")["nodeSelectorTerms"]]},
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}]},
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]},
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
    ],
)
def test_selectors_that_name_no_one_node(selector: Object) -> None:
    assert allocated_node({"nodeSelector": selector}) == ""
    assert allocated_node({"nodeSelector": on_node("a")}) == "a"
