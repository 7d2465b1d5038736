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


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("spec.validations[0].expression", ""),
        (" .spec.variables['a'] ", ""),
        ("spec.validations[?(@.a==1)]", ""),
        ("  ", "Required value"),
        ("spec.validations[0", 'Invalid value: "spec.validations[0": invalid JSONPath: unterminated array'),
        (" spec[x]", 'Invalid value: "spec[x]": invalid JSONPath: invalid array index x'),
        ("#spec", "Invalid value: \"#spec\": invalid JSONPath: unrecognized character in action: U+0023 '#'"),
        (f"spec[{'9' * 5000}]", f"array index {'9' * 5000} is not a number"),
    ],
)
def test_warnings_of_type_checks_name_their_expression_by_a_json_path(api: MemoryAPI, reference: str, why: str) -> None:
    spec = {"matchConstraints": rules("CREATE"), "validations": [{"expression": "true"}]}
    policies = f"{GROUP}/validatingadmissionpolicies"
    assert api.ask("POST", policies, {"metadata": {"name": "p"}, "spec": spec}).code == 201
    warning = {"fieldRef": reference, "warning": "w"}
    patch = {"status": {"typeChecking": {"expressionWarnings": [warning]}}}
    answer = api.ask("PATCH", f"{policies}/p/status", patch, type="application/merge-patch+json")
    if not why:
        assert answer.code == 200 and answer.json["status"]["typeChecking"]["expressionWarnings"] == [warning]
        return
    (cause,) = answer.json["details"]["causes"]
    assert cause["field"] == "status.typeChecking.expressionWarnings[0].fieldRef"
    assert cause["message"].endswith(why)
