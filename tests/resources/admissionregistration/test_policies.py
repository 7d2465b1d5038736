"""What policies and their bindings may say."""

from __future__ import annotations

import pytest

from kapi.machinery.tree import Object
from kapi.resources.admissionregistration import policies
from kapi.resources.admissionregistration.expressions import (
    OUT_OF_BUDGET,
    EvaluationError,
    compile_expression,
    environment,
)
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources.strategy_kit import changes, made, problems, short

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


def test_too_many_audit_annotations_are_shown_in_the_internal_form(api: MemoryAPI) -> None:
    spec = {"matchConstraints": rules("CREATE"), "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}] * 21}
    answer = api.ask("POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    cause = answer.json["details"]["causes"][0]
    assert cause["message"].startswith("""Invalid value: [{"Key":"k","ValueExpression":"'v'"},{"Key":""")
    assert cause["message"].endswith("]: must not have more than 20 auditAnnotations")


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


RULE: Object = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
LABEL = "<DNS-1035 label>"


def policy(**spec: object) -> list[str]:
    """The errors of a policy with this in its spec."""
    given = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}], **spec}
    return short(problems(policies.VALIDATING, spec=given), "spec.")


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        ({"operations": ["CREATE", "UPDATE"], "resources": ["pods", "pods/status", "*/scale"], "scope": "Namespaced"}, []),
        ({"operations": []}, ["operations: Required value"]),
        ({"operations": ["*", "CREATE"]},
         ['operations: Invalid value: ["*","CREATE"]: if \'*\' is present, must not specify other operations']),
        ({"apiGroups": []}, ["apiGroups: Required value"]),
        ({"apiGroups": ["*", ""]},
         ['apiGroups: Invalid value: ["*",""]: if \'*\' is present, must not specify other API groups']),
        ({"apiVersions": []}, ["apiVersions: Required value"]),
        ({"apiVersions": ["*", "v1"]},
         ['apiVersions: Invalid value: ["*","v1"]: if \'*\' is present, must not specify other API versions']),
        ({"apiVersions": ["v1", ""]}, ["apiVersions[1]: Required value"]),
        ({"scope": "X"}, ['scope: Unsupported value: "X": supported values: "*", "Cluster", "Namespaced"']),
        ({"resources": []}, ["resources: Required value"]),
        ({"resources": [""]}, ["resources[0]: Required value"]),
        ({"resources": ["pods/*", "pods/status"]},
         ["resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status"]),
        ({"resources": ["*/status", "pods/status"]},
         ["resources[1]: Invalid value: \"pods/status\": if '*/status' is present, must not specify pods/status"]),
        ({"resources": ["*/*", "pods"]},
         ['resources: Invalid value: ["*/*","pods"]: if \'*/*\' is present, must not specify other resources']),
        ({"resources": ["*", "pods"]},
         ['resources: Invalid value: ["*","pods"]: '
          "if '*' is present, must not specify other resources without subresources"]),
        ({"resources": ["*", "pods/status"]}, []),
        ({"resourceNames": ["a/b"]}, ["resourceNames[0]: Invalid value: \"a/b\": may not contain '/'"]),
        ({"resourceNames": ["a", "a"]}, ['resourceNames[1]: Duplicate value: "a"']),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["resourceRules", "excludeResourceRules"])
def test_a_rule_for_requests(field: str, rule: Object, texts: list[str]) -> None:
    found = policy(matchConstraints={"resourceRules": [RULE], field: [{**RULE, **rule}]})
    assert found == [f"matchConstraints.{field}[0].{text}" for text in texts]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap"}, []),
        ({"apiVersion": "", "kind": ""}, ["apiVersion: Required value", "kind: Required value"]),
        ({"apiVersion": "a/b/c", "kind": "K"},
         ['apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
        ({"apiVersion": "A/v1", "kind": "K"}, ['apiVersion: Invalid value: "A": <subdomain>']),
        ({"apiVersion": "a/", "kind": "K"}, ['apiVersion: Invalid value: "a/": version must be specified']),
        ({"apiVersion": "a/V", "kind": "K"}, [f'apiVersion: Invalid value: "V": {LABEL}']),
        ({"apiVersion": "v1", "kind": "-"},
         [f'kind: Invalid value: "-": may have mixed case, but should otherwise match: {LABEL}']),
    ],
)  # fmt: skip
def test_the_kind_of_parameters(kind: Object, texts: list[str]) -> None:
    assert policy(paramKind=kind) == [f"paramKind.{text}" for text in texts]


@pytest.mark.parametrize(
    ("reference", "texts"),
    [
        ({"name": "a"}, []),
        ({"selector": {}}, []),
        ({}, [": Required value: one of name or selector must be specified"]),
        ({"name": "a", "selector": {}},
         [".name: Forbidden: name and selector are mutually exclusive",
          ".selector: Forbidden: name and selector are mutually exclusive"]),
        ({"name": "a/b"}, [".name: Invalid value: \"a/b\": may not contain '/'"]),
        ({"selector": {"matchLabels": {"a": "-"}}}, ['.selector.matchLabels: Invalid value: "-": <label value>']),
        ({"name": "a", "parameterNotFoundAction": ""}, [".parameterNotFoundAction: Required value"]),
        ({"name": "a", "parameterNotFoundAction": "X"},
         ['.parameterNotFoundAction: Unsupported value: "X": supported values: "Deny", "Allow"']),
    ],
)  # fmt: skip
def test_the_parameters_of_a_binding(reference: Object, texts: list[str]) -> None:
    spec = {
        "policyName": "p", "validationActions": ["Deny"], "paramRef": {"parameterNotFoundAction": "Deny", **reference},
    }  # fmt: skip
    assert short(problems(policies.VALIDATING_BINDING, spec=spec), "spec.paramRef") == texts


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"failurePolicy": "X"}, ['failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore"']),
        ({"matchConstraints": {"resourceRules": []}}, ["matchConstraints.resourceRules: Required value"]),
        ({"matchConstraints": {"resourceRules": [RULE], "matchPolicy": "X"}},
         ['matchConstraints.matchPolicy: Unsupported value: "X": supported values: "Equivalent", "Exact"']),
        ({"matchConstraints": {"resourceRules": [RULE], "objectSelector": {"matchLabels": {"a": "-"}}}},
         ['matchConstraints.objectSelector.matchLabels: Invalid value: "-": <label value>']),
        ({"matchConditions": [{"name": "", "expression": "true"}]}, ["matchConditions[0].name: Required value"]),
        ({"matchConditions": [{"name": "-", "expression": "true"}]},
         ['matchConditions[0].name: Invalid value: "-": <name part>']),
        ({"matchConditions": [{"name": "a", "expression": " "}]}, ["matchConditions[0].expression: Required value"]),
        ({"variables": [{"name": "a-b", "expression": "1"}]},
         ['variables[0].name: Invalid value: "a-b": must be a valid CEL identifier']),
        ({"variables": [{"name": "a", "expression": " "}]},
         ["variables[0].expression: Required value: expression is not specified"]),
        ({"validations": [{"expression": "true", "message": " "}]},
         ['validations[0].message: Invalid value: " ": must be non-empty if specified']),
        ({"validations": [{"expression": "true", "message": "a\nb"}]},
         ['validations[0].message: Invalid value: "a\\nb": must not contain line breaks']),
        ({"validations": [{"expression": "true", "messageExpression": " "}]},
         ['validations[0].messageExpression: Invalid value: " ": must be non-empty if specified']),
        ({"validations": [{"expression": "true", "reason": "X"}]},
         ['validations[0].reason: Unsupported value: "X": supported values: "Forbidden", "Invalid", '
          '"RequestEntityTooLarge"']),
        ({"validations": []},
         ["validations: Required value: validations or auditAnnotations must contain at least one item",
          "auditAnnotations: Required value: validations or auditAnnotations must contain at least one item"]),
        ({"auditAnnotations": [{"key": "k", "valueExpression": "'v'"}] * 2}, ['auditAnnotations[1].key: Duplicate value: "k"']),
        ({"auditAnnotations": [{"key": "-", "valueExpression": "'v'"}]},
         ['auditAnnotations[0].key: Invalid value: "a/-": <name part>']),
        ({"auditAnnotations": [{"key": "k", "valueExpression": " "}]},
         ["auditAnnotations[0].valueExpression: Required value: valueExpression is not specified"]),
        ({"matchConstraints": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}}, []),
    ],
)  # fmt: skip
def test_the_spec_of_a_policy(spec: Object, texts: list[str]) -> None:
    assert policy(**spec) == texts


def test_a_policy_without_a_name_has_no_keys_of_annotations() -> None:
    given = {
        "matchConstraints": {"resourceRules": [RULE]},
        "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}],
    }
    assert problems(policies.VALIDATING, metadata={"name": ""}, spec=given) == [
        "metadata.name: Required value: name or generateName is required",
        'spec.auditAnnotations[0].key: Invalid value: "k": requires metadata.name be non-empty',
    ]


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        ({"typeChecking": {"expressionWarnings": [{"fieldRef": "spec.a", "warning": "w"}]}}, []),
        ({"typeChecking": {"expressionWarnings": [{"fieldRef": " ", "warning": ""}]}},
         ["typeChecking.expressionWarnings[0].warning: Required value",
          "typeChecking.expressionWarnings[0].fieldRef: Required value"]),
        ({"conditions": [{"type": "", "status": "True", "reason": "R", "lastTransitionTime": "2024-01-01T00:00:00Z"}]},
         ['conditions[0].type: Invalid value: "": name part must be non-empty',
          'conditions[0].type: Invalid value: "": <name part>']),
    ],
)  # fmt: skip
def test_the_status_of_a_policy(status: Object, texts: list[str]) -> None:
    given = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
    old = made(policies.VALIDATING, spec=given)
    assert short(changes(policies.VALIDATING, old, subresource="status", status=status), "status.") == texts


@pytest.mark.parametrize(
    ("field", "text", "wanted"),
    [
        ("expression", "1", "must evaluate to bool"),
        ("expression", "nothing", "undeclared reference to 'nothing'"),
        ("messageExpression", "1", "must evaluate to string"),
    ],
)
def test_the_type_of_an_expression(field: str, text: str, wanted: str) -> None:
    (found,) = policy(validations=[{"expression": "true", field: text}])
    assert found.startswith(f'validations[0].{field}: Invalid value: "{text}": ') and wanted in found
    (found,) = policy(auditAnnotations=[{"key": "k", "valueExpression": f"[{text}]"}])
    assert found.startswith(f'auditAnnotations[0].valueExpression: Invalid value: "[{text}]": ')
    if field == "expression":
        (found,) = policy(matchConditions=[{"name": "a", "expression": text}])
        assert found.startswith(f'matchConditions[0].expression: Invalid value: "{text}": ') and wanted in found


def mutating(*mutations: Object, **spec: object) -> list[str]:
    given = {
        "matchConstraints": {"resourceRules": [RULE]},
        "mutations": list(mutations),
        "reinvocationPolicy": "Never",
        **spec,
    }
    return short(problems(policies.MUTATING, spec=given), "spec.")


MUTATION: Object = {"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{op: "remove", path: "/a"}]'}}


@pytest.mark.parametrize(
    ("mutations", "texts"),
    [
        ([], ["mutations: Required value: mutations must contain at least one item"]),
        ([{"jsonPatch": {"expression": "[]"}}], ["mutations[0].patchType: Required value"]),
        ([{"patchType": "X"}],
         ['mutations[0].patchType: Unsupported value: "X": supported values: "ApplyConfiguration", "JSONPatch"']),
        ([{"patchType": "JSONPatch"}], ["mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"]),
        ([{"patchType": "JSONPatch", "jsonPatch": {"expression": " "}}],
         ["mutations[0].jsonPatch.expression: Required value"]),
        ([{**MUTATION, "applyConfiguration": {"expression": "Object{}"}}],
         ['mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": '
          "must not be specified when patchType is JSONPatch"]),
    ],
)  # fmt: skip
def test_the_mutations_of_a_policy(mutations: list[Object], texts: list[str]) -> None:
    assert mutating(*mutations) == texts


@pytest.mark.parametrize("name", ["Object", "JSONPatch", "jsonpatch"])
def test_a_variable_may_not_use_what_only_mutations_have(name: str) -> None:
    text = "jsonpatch.escapeKey('a')" if name == "jsonpatch" else name + "{}"
    (found,) = mutating(MUTATION, variables=[{"name": "v", "expression": text}])
    assert found.startswith("variables[0].expression: Invalid value: ") and f"undeclared reference to '{name}'" in found


@pytest.mark.parametrize(
    ("kind", "own", "type_"),
    [("JSONPatch", "jsonPatch", "list(JSONPatch)"), ("ApplyConfiguration", "applyConfiguration", "Object")],
)
def test_the_expression_of_a_mutation(kind: str, own: str, type_: str) -> None:
    (found,) = mutating({"patchType": kind, own: {"expression": "1"}})
    assert found.startswith(f'mutations[0].{own}.expression: Invalid value: "1": ') and type_ in found


def test_operations_in_which_there_is_something_to_change() -> None:
    given = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    assert mutating(MUTATION, matchConstraints=given) == [
        'matchConstraints.resourceRules.operations: Unsupported value: "DELETE": '
        'supported values: "*", "CONNECT", "CREATE", "UPDATE"'
    ]


def test_when_a_mutating_policy_is_invoked_again() -> None:
    assert mutating(MUTATION, reinvocationPolicy="X") == [
        'reinvocationPolicy: Unsupported value: "X": supported values: "IfNeeded", "Never"'
    ]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({}, []),
        ({"policyName": "A"}, ['policyName: Invalid value: "A": <subdomain>']),
        ({"validationActions": []}, ["validationActions: Required value: at least one validation action is required"]),
        ({"validationActions": ["X"]},
         ['validationActions[0]: Unsupported value: "X": supported values: "Audit", "Deny", "Warn"']),
        ({"validationActions": ["Deny", "Warn"]},
         ['validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn '
          "(repeating the same validation failure information in the API response and headers serves no purpose)"]),
    ],
)  # fmt: skip
def test_the_spec_of_a_binding(spec: Object, texts: list[str]) -> None:
    given = {"policyName": "p", "validationActions": ["Deny"], **spec}
    assert short(problems(policies.VALIDATING_BINDING, spec=given), "spec.") == texts


@pytest.mark.parametrize(
    ("text", "cost"), [("true", 0), ("object == null", 2), ("object == null && object == null", 4)]
)
def test_the_cost_of_an_expression(text: str, cost: int) -> None:
    assert compile_expression(text, environment()).evaluate({"object": None}, 1000) == (True, cost)


def test_an_expression_that_iterates_has_no_time_limit_but_its_budget() -> None:
    expression = compile_expression("[object, object].all(x, x == null)", environment())
    assert expression.evaluate({"object": None}, 1000)[0] is True
    with pytest.raises(EvaluationError) as caught:
        expression.evaluate({"object": None}, 3)
    assert str(caught.value) == OUT_OF_BUDGET
