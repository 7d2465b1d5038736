"""What policies and their bindings may say."""

from __future__ import annotations

import pytest

from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI, succeed

GROUP = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture
def api() -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started())
    return api


def rules(*operations: str) -> Object:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": list(operations)}
    return {"resourceRules": [rule]}


@pytest.mark.parametrize(("operation", "code"), [("CREATE", 201), ("*", 201), ("DELETE", 422), ("GET", 422)])
def test_a_binding_cannot_change_what_is_deleted(api: MemoryAPI, operation: str, code: int) -> None:
    body: Object = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "matchResources": rules(operation)}}
    answer = api.ask("POST", f"{GROUP}/mutatingadmissionpolicybindings", body)
    assert answer.code == code
    if operation == "DELETE":
        why = 'Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"'
        (cause,) = answer.json["details"]["causes"]
        assert (cause["field"], cause["message"]) == ("spec.matchResources.resourceRules.operations", why)
    body["spec"]["validationActions"] = ["Deny"]
    validating = api.ask("POST", f"{GROUP}/validatingadmissionpolicybindings", body)
    assert validating.code == (422 if operation == "GET" else 201)


def test_a_variable_does_not_know_itself(api: MemoryAPI) -> None:
    spec = {
        "matchConstraints": rules("CREATE"),
        "variables": [{"name": "x", "expression": "variables.x"}, {"name": "y", "expression": "1"}],
        "validations": [{"expression": "variables.y == 1"}],
    }
    body = {"metadata": {"name": "p"}, "spec": spec}
    answer = api.ask("POST", f"{GROUP}/validatingadmissionpolicies", body)
    (cause,) = answer.json["details"]["causes"]
    assert cause["field"] == "spec.variables[0].expression" and "undefined field 'x'" in cause["message"]
