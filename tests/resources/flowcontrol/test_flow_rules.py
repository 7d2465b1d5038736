"""What a flow schema and a priority level may say: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.flowcontrol.flowschemas import RESOURCE as SCHEMAS
from kapi.resources.flowcontrol.prioritylevelconfigurations import RESOURCE as LEVELS
from tests.resources.strategy_kit import CTX, made, problems

USER = {"kind": "User", "user": {"name": "u"}}
RESOURCES = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}
URLS = {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}
LEVEL = {"priorityLevelConfiguration": {"name": "l"}}


def of_schema(**spec: Any) -> list[str]:
    return [text.removeprefix("spec.") for text in problems(SCHEMAS, spec={**LEVEL, **spec})]


def of_rule(**parts: Any) -> list[str]:
    found = of_schema(rules=[{"subjects": [USER], "resourceRules": [RESOURCES], **parts}])
    return [text.removeprefix("rules[0]") for text in found]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"matchingPrecedence": 10000}, []),
        ({"matchingPrecedence": 2}, []),
        ({"matchingPrecedence": -1}, ["matchingPrecedence: Invalid value: -1: must be a positive value"]),
        ({"matchingPrecedence": 10001}, ["matchingPrecedence: Invalid value: 10001: must not be greater than 10000"]),
        ({"matchingPrecedence": 1},
         ["matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"]),
        ({"distinguisherMethod": {"type": "ByUser"}}, []),
        ({"distinguisherMethod": {"type": "X"}},
         ['distinguisherMethod.type: Unsupported value: {"Type":"X"}: supported values: "ByNamespace", "ByUser"']),
        ({"priorityLevelConfiguration": {"name": ""}},
         ["priorityLevelConfiguration.name: Required value: must reference a priority level"]),
    ],
)  # fmt: skip
def test_flow_schema(spec: Object, texts: list[str]) -> None:
    assert of_schema(**spec) == texts


def test_level_of_a_flow_schema_is_a_name() -> None:
    (found,) = of_schema(priorityLevelConfiguration={"name": "L"})
    assert found.startswith('priorityLevelConfiguration.name: Invalid value: "L": a lowercase RFC 1123 subdomain')


@pytest.mark.parametrize(
    ("subject", "texts"),
    [
        (USER, []),
        ({"kind": "Group", "group": {"name": "g"}}, []),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": "*"}}, []),
        ({"kind": "X"}, ['.kind: Unsupported value: "X": supported values: "Group", "ServiceAccount", "User"']),
        ({"kind": "User"}, [".user: Required value: user is required when subject kind is 'User'"]),
        ({"kind": "Group"}, [".group: Required value: group is required when subject kind is 'Group'"]),
        ({"kind": "ServiceAccount"},
         [".serviceAccount: Required value: serviceAccount is required when subject kind is 'ServiceAccount'"]),
        ({"kind": "User", "user": {"name": ""}}, [".user.name: Required value"]),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": ""}},
         [".serviceAccount.name: Required value"]),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "", "name": "a"}},
         [".serviceAccount.namespace: Required value: must specify namespace for service account"]),
        ({**USER, "group": {"name": "g"}}, [".group: Forbidden: group is forbidden when subject kind is not 'Group'"]),
        ({**USER, "serviceAccount": {"namespace": "n", "name": "a"}},
         [".serviceAccount: Forbidden: serviceAccount is forbidden when subject kind is not 'ServiceAccount'"]),
        ({"kind": "Group", "group": {"name": "g"}, "user": {"name": "u"}},
         [".user: Forbidden: user is forbidden when subject kind is not 'User'"]),
    ],
)  # fmt: skip
def test_subject(subject: Object, texts: list[str]) -> None:
    assert of_rule(subjects=[subject]) == [f".subjects[0]{text}" for text in texts]


@pytest.mark.parametrize(
    ("account", "path"),
    [({"namespace": "n", "name": "A"}, "name"), ({"namespace": "a.b", "name": "a"}, "namespace")],
)
def test_names_of_a_service_account(account: Object, path: str) -> None:
    (found,) = of_rule(subjects=[{"kind": "ServiceAccount", "serviceAccount": account}])
    assert found.startswith(f'.subjects[0].serviceAccount.{path}: Invalid value: "{account[path]}": ')


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        ({"subjects": []}, [".subjects: Required value: subjects must contain at least one value"]),
        (
            {"resourceRules": []},
            [": Required value: at least one of resourceRules and nonResourceRules has to be non-empty"],
        ),
        ({"resourceRules": [], "nonResourceRules": [URLS]}, []),
        ({"nonResourceRules": [URLS]}, []),
    ],
)
def test_rule(rule: Object, texts: list[str]) -> None:
    assert of_rule(**rule) == texts


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ({"verbs": []}, [".verbs: Required value: verbs must contain at least one value"]),
        ({"verbs": ["*"]}, []),
        ({"verbs": ["create", "watch"]}, []),
        ({"verbs": ["get", "*"]}, ['.verbs: Invalid value: ["get","*"]: if \'*\' is present, must not specify other verbs']),
        ({"apiGroups": []}, [".apiGroups: Required value: resource rules must supply at least one api group"]),
        ({"apiGroups": ["", "*"]},
         ['.apiGroups: Invalid value: ["","*"]: if \'*\' is present, must not specify other api groups']),
        ({"apiGroups": ["", "apps"]}, []),
        ({"resources": []}, [".resources: Required value: resource rules must supply at least one resource"]),
        ({"resources": ["*", "pods"]},
         ['.resources: Invalid value: ["*","pods"]: if \'*\' is present, must not specify other resources']),
        ({"namespaces": []},
         [".namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace"]),
        ({"namespaces": [], "clusterScope": True}, []),
        ({"namespaces": ["*"], "clusterScope": True}, []),
        ({"namespaces": ["a", "*"]},
         ['.namespaces: Invalid value: ["a","*"]: if \'*\' is present, must not specify other namespaces']),
    ],
)  # fmt: skip
def test_resource_rule(part: Object, texts: list[str]) -> None:
    assert of_rule(resourceRules=[{**RESOURCES, **part}]) == [f".resourceRules[0]{text}" for text in texts]


def test_namespaces_and_verbs_have_names() -> None:
    (found,) = of_rule(resourceRules=[{**RESOURCES, "namespaces": ["a", "A"]}])
    assert found.startswith(
        ".resourceRules[0].namespaces[1]: Invalid value: \"A\": each member of this list must be '*' or a DNS-1123 label; "
    )
    (found,) = of_rule(resourceRules=[{**RESOURCES, "verbs": ["get", "x"]}])
    assert found == (
        '.resourceRules[0].verbs: Unsupported value: ["get","x"]: supported values: "create", "delete", "deletecollection", '
        '"get", "list", "patch", "proxy", "update", "watch"'
    )


@pytest.mark.parametrize(
    ("urls", "texts"),
    [
        (["/", "/a", "/a/*"], []),
        (["*"], []),
        ([], [": Required value: nonResourceURLs must contain at least one value"]),
        (["*", "/a"], [': Invalid value: ["*","/a"]: if \'*\' is present, must not specify other non-resource URLs']),
        (["/a", ""], ['[1]: Invalid value: "": must not be empty']),
        (["a"], ['[0]: Invalid value: "a": must start with slash']),
        (["/a b"], ['[0]: Invalid value: "/a b": must not contain white-space']),
        (["/a//b"], ['[0]: Invalid value: "/a//b": must not contain double slash']),
        (["/a*"], ['[0]: Invalid value: "/a*": wildcard can only do suffix matching']),
        (["/*/b"], ['[0]: Invalid value: "/*/b": wildcard can only do suffix matching']),
        (["/*/*"], ['[0]: Invalid value: "/*/*": wildcard can only do suffix matching']),
    ],
)
def test_other_urls(urls: list[str], texts: list[str]) -> None:
    assert of_rule(nonResourceRules=[{**URLS, "nonResourceURLs": urls}]) == [
        f".nonResourceRules[0].nonResourceURLs{text}" for text in texts
    ]
    assert of_rule(nonResourceRules=[{**URLS, "verbs": []}]) == [
        ".nonResourceRules[0].verbs: Required value: verbs must contain at least one value"
    ]


@pytest.mark.parametrize("row", [SCHEMAS, LEVELS], ids=lambda row: str(row.plural))
def test_conditions_have_different_types(row: Any) -> None:
    spec = LEVEL if row is SCHEMAS else {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    obj = {"metadata": {"name": "a"}, "spec": spec}
    row.strategy.default(obj)
    obj["status"] = {"conditions": [{"type": "A"}, {"type": "A"}, {"type": ""}]}
    strategy = row.subresource("status").strategy
    old = {**obj, "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}
    wanted = ['status.conditions[1].type: Duplicate value: "A"', "status.conditions[2].type: Required value"]
    for each in (strategy, row.strategy):  # upstream checks stored conditions in every update
        assert [str(error) for error in each.validate_update({**old}, old, None)] == wanted


def of_level(name: str = "a", **spec: Any) -> list[str]:
    return [text.removeprefix("spec.") for text in problems(LEVELS, metadata={"name": name}, spec=spec)]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"type": "X"}, ['type: Unsupported value: "X": supported values: "Exempt", "Limited"']),
        ({"type": "Limited"}, ["limited: Required value: must not be empty when type is Limited"]),
        ({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}, "exempt": {}},
         ["exempt: Forbidden: must be nil if the type is Limited"]),
        ({"type": "Exempt", "exempt": {}},
         ['type: Invalid value: "Exempt": must be \'Exempt\' if and only if `name` is \'exempt\'']),
        ({"type": "Exempt", "limited": {"limitResponse": {"type": "Reject"}}},
         ['type: Invalid value: "Exempt": must be \'Exempt\' if and only if `name` is \'exempt\'',
          "limited: Forbidden: must be nil if the type is not Limited"]),
    ],
)  # fmt: skip
def test_kind_of_a_level(spec: Object, texts: list[str]) -> None:
    assert of_level(**spec) == texts


@pytest.mark.parametrize(
    ("exempt", "texts"),
    [
        ({"nominalConcurrencyShares": 0, "lendablePercent": 100}, []),
        (
            {"nominalConcurrencyShares": -1},
            ["exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"],
        ),
        (
            {"lendablePercent": 101},
            ["exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"],
        ),
        ({"lendablePercent": -1}, ["exempt.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive"]),
    ],
)
def test_exempt_level(exempt: Object, texts: list[str]) -> None:
    assert of_level("exempt", type="Exempt", exempt=exempt) == texts


QUEUING = "limitResponse.queuing"


@pytest.mark.parametrize(
    ("limited", "texts"),
    [
        ({"limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 1}}}, []),
        ({"nominalConcurrencyShares": -1}, ["nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"]),
        ({"lendablePercent": 101}, ["lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"]),
        ({"borrowingLimitPercent": 0}, []),
        ({"borrowingLimitPercent": -1},
         ["borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"]),
        ({"limitResponse": {"type": "X"}},
         ['limitResponse.type: Unsupported value: "X": supported values: "Queue", "Reject"']),
        ({"limitResponse": {"type": "Reject", "queuing": {}}},
         [f"{QUEUING}: Forbidden: must be nil if limited.limitResponse.type is not Limited"]),
        ({"limitResponse": {"type": "Queue"}},
         [f"{QUEUING}: Required value: must not be empty if limited.limitResponse.type is Limited"]),
        ({"limitResponse": {"type": "Queue", "queuing": {"queueLengthLimit": -1}}},
         [f"{QUEUING}.queueLengthLimit: Invalid value: -1: must be positive"]),
        ({"limitResponse": {"type": "Queue", "queuing": {"queues": -1, "handSize": -1}}},
         [f"{QUEUING}.queues: Invalid value: -1: must be positive", f"{QUEUING}.handSize: Invalid value: -1: must be positive"]),
        ({"limitResponse": {"type": "Queue", "queuing": {"queues": 10_000_000, "handSize": 2}}}, []),
        ({"limitResponse": {"type": "Queue", "queuing": {"queues": 10_000_001, "handSize": 2}}},
         [f"{QUEUING}.queues: Invalid value: 10000001: must not be greater than 10000000"]),
        ({"limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 4}}}, []),
        ({"limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 5}}},
         [f"{QUEUING}.handSize: Invalid value: 5: should not be greater than queues (4)"]),
        ({"limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 10}}}, []),  # 60 bits
        ({"limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 11}}},
         [f"{QUEUING}.handSize: Invalid value: 11: required entropy bits of deckSize 64 and handSize 11 should not be greater "
          "than 60"]),
    ],
)  # fmt: skip
def test_limited_level(limited: Object, texts: list[str]) -> None:
    limited = {"limitResponse": {"type": "Reject"}, **limited}
    assert of_level(type="Limited", limited=limited) == [f"limited.{text}" for text in texts]


def test_annotation_of_zero_shares() -> None:
    name = "flowcontrol.k8s.io/preserve-zero-concurrency-shares"
    spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    assert problems(LEVELS, metadata={"annotations": {name: ""}}, spec=spec) == [
        f"metadata.annotations: Forbidden: annotation '{name}' is forbidden"
    ]


def test_mandatory_objects_are_fixed() -> None:
    rule = {"subjects": [USER], "resourceRules": [RESOURCES], "nonResourceRules": [URLS]}
    spec = {**LEVEL, "matchingPrecedence": 10000, "rules": [rule]}
    (found,) = problems(SCHEMAS, metadata={"name": "catch-all"}, spec=spec)
    assert found == (
        'spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"l"},"MatchingPrecedence":10000,"DistinguisherMethod":null,'
        '"Rules":[{"Subjects":[{"Kind":"User","User":{"Name":"u"},"Group":null,"ServiceAccount":null}],'
        '"ResourceRules":[{"Verbs":["get"],"APIGroups":[""],"Resources":["pods"],"ClusterScope":false,"Namespaces":["*"]}],'
        '"NonResourceRules":[{"Verbs":["get"],"NonResourceURLs":["/healthz"]}]}]}: '
        "spec of 'catch-all' must equal the fixed value"
    )
    (found,) = problems(
        SCHEMAS, metadata={"name": "catch-all"}, spec={**spec, "rules": [{"subjects": [{"user": {}}]}]}
    )[-1:]
    shown = '[{"Subjects":[{"Kind":"","User":{"Name":""},"Group":null,"ServiceAccount":null}],'
    assert shown in found, "an empty part has its fields"
    (found,) = of_level("catch-all", type="Limited", limited={"limitResponse": {"type": "Reject"}})
    assert found.endswith("spec of 'catch-all' must equal the fixed value")
    assert of_level("exempt", type="Exempt", exempt={"lendablePercent": 7}) == []
    limited = {"limitResponse": {"type": "Reject"}}
    *_, found = of_level("exempt", type="Exempt", exempt={}, limited=limited)
    assert found.endswith("spec of 'exempt' except the 'spec.exempt' field must equal the fixed value")


@pytest.mark.parametrize(
    ("before", "after", "generation"),
    [
        (None, [], 1),  # one value for upstream's comparison
        ([], None, 1),
        (None, ["a"], 2),
        (["a"], [], 2),
        (["a"], ["b"], 2),
        (["a"], ["a"], 1),
    ],
)
def test_an_empty_list_is_no_change(before: object, after: object, generation: int) -> None:
    def spec(namespaces: object) -> Object:
        rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["x"], "clusterScope": True, "namespaces": namespaces}
        return {"rules": [{"resourceRules": [rule]}]}

    old, new = made(SCHEMAS, spec=spec(before)), made(SCHEMAS, spec=spec(after))
    SCHEMAS.strategy.prepare_for_update(new, old, CTX)
    assert new["metadata"]["generation"] == generation
