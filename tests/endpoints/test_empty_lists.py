"""Lists that clients give empty: refused in upstream's words where they mean something, else as good as absent."""

from __future__ import annotations

from typing import Any

from kapi.testing.memory_api import MemoryAPI, succeed

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/n/ingresses"


def ingress(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": spec}


def test_an_ingress_of_no_rules() -> None:
    api = succeed(MemoryAPI.started())
    text = "Invalid value: {}: either `defaultBackend` or `rules` must be specified"
    for spec, shown in ({"rules": []}, "[]"), ({}, "null"):
        causes = api.ask("POST", INGRESSES, ingress(**spec)).json["details"]["causes"]
        assert causes == [{"reason": "FieldValueInvalid", "message": text.format(shown), "field": "spec"}]


def test_with_a_default_backend_they_are_as_good_as_absent() -> None:
    api = succeed(MemoryAPI.started())
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    stored = api.ask("POST", INGRESSES, ingress(defaultBackend=backend, rules=[])).json
    assert stored["spec"] == {"defaultBackend": backend}
    assert all("f:rules" not in str(entry) for entry in stored["metadata"].get("managedFields") or ())
    again = api.ask("PUT", INGRESSES + "/x", {**stored, "spec": {"defaultBackend": backend, "rules": []}}).json
    assert again["metadata"]["generation"] == 1
    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


POLICIES = "/apis/networking.k8s.io/v1/namespaces/n/networkpolicies"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"


def generations(path: str, body: dict[str, Any], *changes: dict[str, Any]) -> list[int]:
    """Of the object that is created, and after each PUT of it with other parts; no update changes what is stored."""
    api = succeed(MemoryAPI.started())
    created = api.ask("POST", path, {"metadata": {"name": "x"}, **body}).json
    found = [created["metadata"]["generation"]]
    for change in changes:
        metadata = api.ask("GET", f"{path}/x").json["metadata"]
        answer = api.ask("PUT", f"{path}/x", {**body, **change, "metadata": metadata})
        assert answer.code == 200, answer.json
        assert {**answer.json, "metadata": None} == {**created, "metadata": None}
        found.append(answer.json["metadata"]["generation"])
    return found


def test_a_network_policy_has_a_new_generation_with_each_empty_list_that_is_sent() -> None:
    """Its specs are compared with nil and empty lists apart, and storage knows only nil."""
    spec: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}
    no_rules, no_labels = {**spec, "ingress": []}, {**spec, "podSelector": {"matchLabels": {}}}
    assert generations(POLICIES, {"spec": no_rules}, {}, {}) == [1, 2, 3]
    assert generations(POLICIES, {"spec": spec}, {}, {"spec": no_labels}, {}) == [1, 1, 2, 2]
    rule = {"ports": [{"port": 80, "protocol": "TCP"}]}
    with_rule = {**spec, "ingress": [rule]}
    without_peers = {**spec, "ingress": [{**rule, "from": []}]}
    assert generations(POLICIES, {"spec": with_rule}, {}, {"spec": without_peers}) == [1, 1, 2]


def test_an_empty_list_that_gets_a_default_is_no_change() -> None:
    spec = {"podSelector": {}, "policyTypes": []}
    assert generations(POLICIES, {"spec": spec}, {}) == [1, 1]
    assert generations(POLICIES, {"spec": spec}, {"spec": {**spec, "egress": None}}) == [1, 1]


def test_patches_with_empty_lists_make_a_new_generation_too() -> None:
    api = succeed(MemoryAPI.started())
    api.ask("POST", POLICIES, {"metadata": {"name": "x"}, "spec": {"podSelector": {}}})
    patches: list[tuple[object, str]] = [
        ({"spec": {"ingress": []}}, MERGE),
        ([{"op": "add", "path": "/spec/ingress", "value": []}], JSON),
        ({"metadata": {"labels": {"a": "b"}}}, MERGE),
    ]
    found = [
        api.ask("PATCH", f"{POLICIES}/x", patch, type=kind).json["metadata"]["generation"] for patch, kind in patches
    ]
    assert found == [2, 3, 3]


def test_webhook_configurations_are_compared_in_the_same_way() -> None:
    assert generations(CONFIGURATIONS, {"webhooks": []}, {}, {"webhooks": None}) == [1, 2, 2]


def test_other_kinds_take_an_empty_list_for_an_absent_one() -> None:
    selector = {"selector": {"matchLabels": {"a": "b"}}}
    empty = {"selector": {"matchLabels": {"a": "b"}, "matchExpressions": []}}
    path = "/apis/policy/v1/namespaces/n/poddisruptionbudgets"
    assert generations(path, {"spec": selector}, {"spec": empty}) == [1, 1]
