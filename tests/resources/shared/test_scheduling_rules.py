"""Where a pod may run: each rule of affinity, spreading and tolerations refuses one thing, with its text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery.tree import Object
from kapi.resources.core.pods import RESOURCE
from kapi.resources.shared.affinity import pod_terms
from tests.resources.strategy_kit import CTX, problems

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def of_spec(**parts: Any) -> list[str]:
    found = problems(RESOURCE, spec={"containers": [{"name": "c", "image": "i:1"}], **parts})
    return [text.removeprefix("spec.") for text in found]


def of_node_term(**term: Any) -> list[str]:
    found = of_spec(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})
    return [text.removeprefix(f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].") for text in found]


@pytest.mark.parametrize(
    ("requirement", "texts"),
    [
        ({"key": "k", "operator": "In", "values": ["a", "b"]}, []),
        ({"key": "k", "operator": "In"}, [".values: Required value: must be specified when `operator` is 'In' or 'NotIn'"]),
        ({"key": "k", "operator": "NotIn"}, [".values: Required value: must be specified when `operator` is 'In' or 'NotIn'"]),
        ({"key": "k", "operator": "Exists"}, []),
        ({"key": "k", "operator": "DoesNotExist", "values": ["a"]},
         [".values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"]),
        ({"key": "k", "operator": "Gt", "values": ["1"]}, []),
        ({"key": "k", "operator": "Lt", "values": ["1", "2"]},
         [".values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"]),
        ({"key": "k", "operator": "X"}, ['.operator: Invalid value: "X": not a valid selector operator']),
        ({"key": "k", "operator": "In", "values": ["a", "b c"]}, [f'.values[1]: Invalid value: "b c": {VALUE}']),
    ],
)  # fmt: skip
def test_labels_of_a_node(requirement: Object, texts: list[str]) -> None:
    assert of_node_term(matchExpressions=[requirement]) == [f"matchExpressions[0]{text}" for text in texts]


@pytest.mark.parametrize(
    ("requirement", "texts"),
    [
        ({"key": "metadata.name", "operator": "In", "values": ["a"]}, []),
        ({"key": "metadata.name", "operator": "NotIn", "values": ["a", "b"]},
         [".values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"]),
        ({"key": "metadata.name", "operator": "Exists"},
         ['.operator: Invalid value: "Exists": not a valid selector operator']),
        ({"key": "metadata.x", "operator": "In", "values": ["A"]},
         ['.key: Invalid value: "metadata.x": not a valid field selector key']),
        ({"key": "metadata.name", "operator": "In", "values": ["A"]}, [f'.values[0]: Invalid value: "A": {SUBDOMAIN}']),
    ],
)  # fmt: skip
def test_fields_of_a_node(requirement: Object, texts: list[str]) -> None:
    assert of_node_term(matchFields=[requirement]) == [f"matchFields[0]{text}" for text in texts]


def test_a_preference_for_nodes_is_checked_but_for_its_values() -> None:
    def preferred(**expression: Any) -> list[str]:
        term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
        return of_spec(affinity={"nodeAffinity": {PREFERRED: [term]}})

    assert preferred(key="k", operator="In", values=["b c"]) == []
    assert preferred(key="k", operator="X") == [
        f"affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].operator: "
        'Invalid value: "X": not a valid selector operator'
    ]


def test_a_node_selector_has_terms() -> None:
    path = f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    assert of_spec(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}) == [
        f"{path}: Required value: must have at least one node selector term"
    ]


@pytest.mark.parametrize(("weight", "right"), [(None, False), (0, False), (1, True), (100, True), (101, False)])
def test_weight(weight: int | None, right: bool) -> None:
    given = {} if weight is None else {"weight": weight}
    node = {**given, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}
    pod = {**given, "podAffinityTerm": {"topologyKey": "k"}}
    found = of_spec(affinity={"nodeAffinity": {PREFERRED: [node]}, "podAntiAffinity": {PREFERRED: [pod]}})
    text = f"Invalid value: {weight or 0}: must be in the range 1-100"
    assert found == [
        f"affinity.{part}.{PREFERRED}[0].weight: {text}" for part in ("nodeAffinity", "podAntiAffinity") if not right
    ]


SELECTOR = {"matchLabels": {"a": "b"}}


@pytest.mark.parametrize("part", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    ("term", "texts"),
    [
        ({"labelSelector": SELECTOR, "namespaceSelector": {}, "namespaces": ["n"]}, []),
        ({"labelSelector": {"matchExpressions": [{"key": "k", "operator": "X"}]}},
         ['labelSelector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator']),
        ({"namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "X"}]}},
         ['namespaceSelector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator']),
        ({"namespaces": ["n", "a.b"]}, ['namespace: Invalid value: "a.b": must not contain dots']),
        ({"matchLabelKeys": ["k"]}, ["matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"]),
        ({"mismatchLabelKeys": ["k"]}, ["mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set"]),
        ({"labelSelector": SELECTOR, "matchLabelKeys": ["k"], "mismatchLabelKeys": ["l"]}, []),
        ({"topologyKey": "-"}, [f'topologyKey: Invalid value: "-": {NAME_PART}']),
        ({"labelSelector": SELECTOR, "matchLabelKeys": ["-"], "mismatchLabelKeys": ["_"]},
         [f'matchLabelKeys[0]: Invalid value: "-": {NAME_PART}', f'mismatchLabelKeys[0]: Invalid value: "_": {NAME_PART}']),
        ({"labelSelector": {"matchLabels": {"k": "v"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]},
          "matchLabelKeys": ["l", "k"]},
         ["[1]: Invalid value: \"k\": exists in both matchLabelKeys and labelSelector"]),
        ({"labelSelector": SELECTOR, "matchLabelKeys": ["k"], "mismatchLabelKeys": ["k"]},
         ['matchLabelKeys[0]: Invalid value: "k": exists in both matchLabelKeys and mismatchLabelKeys']),
    ],
)  # fmt: skip
def test_other_pods(part: str, term: Object, texts: list[str]) -> None:
    texts = [text if text.startswith("[") else f".{text}" for text in texts]
    assert of_spec(affinity={part: {REQUIRED: [{"topologyKey": "t", **term}]}}) == [
        f"affinity.{part}.{REQUIRED}[0]{text}" for text in texts
    ]
    preferred = {"weight": 1, "podAffinityTerm": {"topologyKey": "t", **term}}
    assert of_spec(affinity={part: {PREFERRED: [preferred]}}) == [
        f"affinity.{part}.{PREFERRED}[0].podAffinityTerm{text}" for text in texts
    ]


def test_topology_of_other_pods_is_named() -> None:
    path = f"affinity.podAffinity.{REQUIRED}[0].topologyKey"
    assert (
        of_spec(affinity={"podAffinity": {REQUIRED: [{"topologyKey": ""}]}})[0]
        == f"{path}: Required value: can not be empty"
    )


SPREAD = {"maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ({"minDomains": 1, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}, []),
        ({"maxSkew": 0}, [".maxSkew: Invalid value: 0: must be greater than zero"]),
        ({"topologyKey": ""}, [".topologyKey: Required value: can not be empty"]),
        ({"whenUnsatisfiable": ""},
         ['.whenUnsatisfiable: Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway"']),
        ({"minDomains": 0}, [".minDomains: Invalid value: 0: must be greater than zero"]),
        ({"minDomains": 1, "whenUnsatisfiable": "ScheduleAnyway"},
         [".minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"]),
        ({"nodeAffinityPolicy": "X"}, ['.nodeAffinityPolicy: Unsupported value: "X": supported values: "Honor", "Ignore"']),
        ({"nodeTaintsPolicy": "X"}, ['.nodeTaintsPolicy: Unsupported value: "X": supported values: "Honor", "Ignore"']),
        ({"labelSelector": {"matchExpressions": [{"key": "k", "operator": "X"}]}},
         ['.labelSelector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator']),
        ({"matchLabelKeys": ["k"]}, [".matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"]),
    ],
)  # fmt: skip
def test_spreading(part: Object, texts: list[str]) -> None:
    assert of_spec(topologySpreadConstraints=[{**SPREAD, **part}]) == [
        f"topologySpreadConstraints[0]{text}" for text in texts
    ]


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ({"labelSelector": SELECTOR, "matchLabelKeys": ["k"]}, []),
        ({"matchLabelKeys": ["k"]}, [": Forbidden: must not be specified when labelSelector is not set"]),
        ({"labelSelector": SELECTOR, "matchLabelKeys": ["k", "-"]}, [f'[1]: Invalid value: "-": {NAME_PART}']),
        ({"labelSelector": SELECTOR, "matchLabelKeys": ["a"]},
         ['[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector']),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "matchLabelKeys": ["a"]},
         ['[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector']),
    ],
)  # fmt: skip
def test_keys_of_spreading_without_the_gate_that_merges_them(part: Object, texts: list[str]) -> None:
    ctx = msgspec.structs.replace(CTX, features={"MatchLabelKeysInPodTopologySpreadSelectorMerge": False})
    spec = {"containers": [{"name": "c", "image": "i:1"}], "topologySpreadConstraints": [{**SPREAD, **part}]}
    found = problems(RESOURCE, ctx, spec=spec)
    assert found == [f"spec.topologySpreadConstraints[0].matchLabelKeys{text}" for text in texts]


def test_one_constraint_for_a_topology_and_an_action() -> None:
    assert of_spec(topologySpreadConstraints=[SPREAD, SPREAD]) == [
        'topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{t, DoNotSchedule}"'
    ]
    for part in ({"topologyKey": "u"}, {"whenUnsatisfiable": "ScheduleAnyway"}):
        assert of_spec(topologySpreadConstraints=[SPREAD, {**SPREAD, **part}]) == []


@pytest.mark.parametrize(
    ("toleration", "texts"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "k", "value": "v"}, []),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "PreferNoSchedule"}, []),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}, []),
        ({"operator": "Equal"}, ['.operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means '
                                 '"match all values and all keys"']),
        ({"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1},
         [".effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"]),
        ({"key": "k", "value": "a b"}, [f'.operator: Invalid value: "a b": {VALUE}']),
        ({"key": "k", "operator": "Exists", "value": "v"},
         ['.operator: Invalid value: "v": value must be empty when `operator` is \'Exists\'']),
        ({"key": "-", "operator": "Exists"}, [f'.key: Invalid value: "-": {NAME_PART}']),
        ({"key": "k", "operator": "X"}, ['.operator: Unsupported value: "X": supported values: "Equal", "Exists"']),
        ({"key": "k", "operator": "Exists", "effect": "X"},
         ['.effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"']),
    ],
)  # fmt: skip
def test_tolerations(toleration: Object, texts: list[str]) -> None:
    assert of_spec(tolerations=[toleration]) == [f"tolerations[0]{text}" for text in texts]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("0", []),
        ("-9223372036854775808", []),
        ("", ["must be non-empty", 'strconv.ParseInt: parsing "": invalid syntax']),
        ("01", ["must be a valid decimal integer in canonical form"]),
        (
            "1.5",
            ["must be a valid decimal integer in canonical form", 'strconv.ParseInt: parsing "1.5": invalid syntax'],
        ),
        ("9223372036854775808", ['strconv.ParseInt: parsing "9223372036854775808": value out of range']),
    ],
)
@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_tolerations_that_compare_with_their_gate(operator: str, value: str, texts: list[str]) -> None:
    ctx = msgspec.structs.replace(CTX, features={"TaintTolerationComparisonOperators": True})
    toleration = {"key": "k", "operator": operator, "value": value}
    spec = {"containers": [{"name": "c", "image": "i:1"}], "tolerations": [toleration]}
    found = problems(RESOURCE, ctx, spec=spec)
    assert found == [f'spec.tolerations[0].value: Invalid value: "{value}": {text}' for text in texts]


def test_all_terms_of_pods() -> None:
    both = {
        "podAffinity": {REQUIRED: ["a", "b"], PREFERRED: [{"podAffinityTerm": {"c": 1}}, {}]},
        "podAntiAffinity": {PREFERRED: [{"podAffinityTerm": {"d": 1}}]},
        "nodeAffinity": {REQUIRED: ["x"]},
    }
    assert pod_terms(both) == ["a", "b", {"c": 1}, {}, {"d": 1}]
    assert pod_terms({"podAntiAffinity": {REQUIRED: ["e"]}, "podAffinity": None}) == ["e"]
    assert pod_terms({}) == pod_terms(None) == []
