"""What the spec of a Job may say: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.batch.jobs import RESOURCE
from tests.resources.strategy_kit import changes, made, problems, short

NEGATIVE = "must be greater than or equal to 0"


def template(policy: str = "Never") -> Object:
    spec = {
        "restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}], "initContainers": [{"name": "f", "image": "i:1"}],
    }  # fmt: skip
    return {"spec": spec}


def of_spec(**spec: Any) -> list[str]:
    return short(problems(RESOURCE, metadata={"uid": "u"}, spec={"template": template(), **spec}), "spec.")


def indexed(**spec: Any) -> list[str]:
    return of_spec(**{"completionMode": "Indexed", "completions": 10, **spec})


@pytest.mark.parametrize(
    "name", ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
)
def test_counts_are_not_negative(name: str) -> None:
    assert of_spec(**{name: 0}) == []
    assert of_spec(**{name: -1}) == [f"{name}: Invalid value: -1: {NEGATIVE}"]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"managedBy": "example.com/a"}, []),
        ({"managedBy": ""}, ["managedBy: Required value"]),
        ({"managedBy": "A/a"}, ['managedBy: Invalid value: "A": <subdomain>']),
        ({"managedBy": "example.com/a b"},
         ['managedBy: Invalid value: "a b": Invalid path (regex used for validation is '
          "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"]),
        ({"managedBy": "example.com/" + "a" * 52}, ["managedBy: Too long: may not be more than 63 bytes"]),
        ({"completionMode": "NonIndexed"}, []),
        ({"completionMode": "X"}, ['completionMode: Unsupported value: "X": supported values: "NonIndexed", "Indexed"']),
        ({"completionMode": "Indexed", "parallelism": 1}, ["completions: Required value: when completion mode is Indexed"]),
        ({"backoffLimitPerIndex": 1}, ["backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"]),
        ({"maxFailedIndexes": 1, "backoffLimitPerIndex": 1},
         ["backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
          "maxFailedIndexes: Invalid value: 1: requires indexed completion mode"]),
        ({"template": template("OnFailure")}, []),
        ({"template": template("X")},
         ['template.spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never"',
          'template.spec.restartPolicy: Unsupported value: "X": supported values: "OnFailure", "Never"']),
        ({"template": template("Always")}, ['template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, []),
        ({"podReplacementPolicy": "X"},
         ['podReplacementPolicy: Unsupported value: "X": supported values: "Failed", "TerminatingOrFailed"']),
    ],
)  # fmt: skip
def test_spec(spec: Object, texts: list[str]) -> None:
    assert of_spec(**spec) == texts


BOUND = "must be less than or equal to"
ABOVE = "when completions are above 100000 and used with backoff limit per index"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"parallelism": 100_000}, []),
        ({"parallelism": 100_001}, [f"parallelism: Invalid value: 100001: {BOUND} 100000 when completion mode is Indexed"]),
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 10}, []),
        ({"maxFailedIndexes": 1}, ["backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"]),
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 11}, [f"maxFailedIndexes: Invalid value: 11: {BOUND} completions"]),
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 10_000, "parallelism": 10_000, "completions": 100_001}, []),
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 10_001, "completions": 100_000}, []),
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 100_001, "completions": 100_001},
         [f"maxFailedIndexes: Invalid value: 100001: {BOUND} 100000",
          f"maxFailedIndexes: Invalid value: 100001: {BOUND} 10000 {ABOVE}"]),
        ({"backoffLimitPerIndex": 1, "completions": 100_001},
         ["maxFailedIndexes: Required value: must be specified when completions is above 100000"]),
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 10_001, "completions": 100_001},
         [f"maxFailedIndexes: Invalid value: 10001: {BOUND} 10000 {ABOVE}"]),
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 1, "parallelism": 10_001, "completions": 100_001},
         [f"parallelism: Invalid value: 10001: {BOUND} 10000 {ABOVE}"]),
        ({"completions": 100_001}, []),
    ],
)  # fmt: skip
def test_indexed_job(spec: Object, texts: list[str]) -> None:
    assert indexed(**spec) == texts


def of_failure_rule(**rule: Any) -> list[str]:
    return short(of_spec(podFailurePolicy={"rules": [{"action": "Ignore", **rule}]}), "podFailurePolicy.rules[0]")


CODES = {"operator": "In", "values": [1, 2]}
CONDITION = {"type": "DisruptionTarget", "status": "True"}


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        ({"onExitCodes": CODES}, []),
        ({"onPodConditions": [CONDITION] * 20}, []),
        ({"action": "", "onExitCodes": CODES},
         ['.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]']),
        ({"action": "X", "onExitCodes": CODES},
         ['.action: Unsupported value: "X": supported values: "Count", "FailIndex", "FailJob", "Ignore"']),
        ({"action": "FailIndex", "onExitCodes": CODES},
         ['.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set']),
        ({}, [": Invalid value: specifying one of OnExitCodes and OnPodConditions is required"]),
        ({"onExitCodes": CODES, "onPodConditions": [CONDITION]},
         [": Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"]),
        ({"onExitCodes": {**CODES, "operator": ""}}, ['.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]']),
        ({"onExitCodes": {**CODES, "operator": "X"}},
         ['.onExitCodes.operator: Unsupported value: "X": supported values: "In", "NotIn"']),
        ({"onExitCodes": {**CODES, "containerName": "c"}}, []),
        ({"onExitCodes": {**CODES, "containerName": "f"}}, []),
        ({"onExitCodes": {**CODES, "containerName": "x"}},
         ['.onExitCodes.containerName: Invalid value: "x": must be one of the container or initContainer names in the pod '
          "template"]),
        ({"onExitCodes": {"operator": "In", "values": []}},
         [".onExitCodes.values: Invalid value: []: at least one value is required"]),
        ({"onExitCodes": {"operator": "NotIn", "values": [0, 1]}}, []),
        ({"onExitCodes": {"operator": "In", "values": [0, 1]}},
         [".onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"]),
        ({"onExitCodes": {"operator": "In", "values": [1, 1]}}, [".onExitCodes.values[1]: Duplicate value: 1"]),
        ({"onExitCodes": {"operator": "In", "values": [2, 1]}},
         [".onExitCodes.values: Invalid value: [2,1]: must be ordered"]),
        ({"onExitCodes": {"operator": "In", "values": [*range(1, 256)]}}, []),
        ({"onExitCodes": {"operator": "In", "values": [*range(1, 257)]}},
         [".onExitCodes.values: Too many: 256: must have at most 255 items"]),
        ({"onPodConditions": [CONDITION] * 21}, [".onPodConditions: Too many: 21: must have at most 20 items"]),
        ({"onPodConditions": [{**CONDITION, "type": "-"}]},
         ['.onPodConditions[0].type: Invalid value: "-": <name part>']),
        ({"onPodConditions": [{**CONDITION, "status": ""}]}, []),  # which becomes True
        ({"onPodConditions": [{**CONDITION, "status": "X"}]},
         ['.onPodConditions[0].status: Unsupported value: "X": supported values: "False", "True", "Unknown"']),
    ],
)  # fmt: skip
def test_rule_for_failures(rule: Object, texts: list[str]) -> None:
    assert of_failure_rule(**rule) == texts


def test_rules_for_failures() -> None:
    rule = {"action": "Count", "onExitCodes": CODES}
    assert of_spec(podFailurePolicy={"rules": [rule] * 20}) == []
    assert of_spec(podFailurePolicy={"rules": [rule] * 21}) == [
        "podFailurePolicy.rules: Too many: 21: must have at most 20 items"
    ]
    assert of_spec(podFailurePolicy={"rules": [rule]}, podReplacementPolicy="TerminatingOrFailed") == [
        'podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'
    ]
    assert of_spec(podFailurePolicy={"rules": [rule]}, template=template("OnFailure")) == [
        'template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'
    ]
    assert indexed(backoffLimitPerIndex=1, podFailurePolicy={"rules": [{**rule, "action": "FailIndex"}]}) == []


PARSING = "error parsing succeededIndexes:"


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        ({"succeededIndexes": "0,2-4,9"}, []),
        ({"succeededCount": 10}, []),
        ({"succeededIndexes": "0,2-4", "succeededCount": 4}, []),
        ({}, [": Required value: at least one of succeededCount or succeededIndexes must be specified"]),
        ({"succeededCount": -1}, [f".succeededCount: Invalid value: -1: {NEGATIVE}"]),
        ({"succeededCount": 11}, [f".succeededCount: Invalid value: 11: {BOUND} 10 (the number of specified completions)"]),
        ({"succeededIndexes": "0,2-4", "succeededCount": 5},
         [f".succeededCount: Invalid value: 5: {BOUND} 4 (the number of indexes in the specified succeededIndexes field)"]),
        ({"succeededIndexes": "0," + "1" * (64 * 1024 - 2)},
         [f'.succeededIndexes: Invalid value: "0,{"1" * (64 * 1024 - 2)}": {PARSING} cannot convert string to integer for '
          f'index: "{"1" * (64 * 1024 - 2)}"']),
        ({"succeededIndexes": "0," + "1" * (64 * 1024 - 1)},
         [".succeededIndexes: Too long: may not be more than 65536 bytes",
          f'.succeededIndexes: Invalid value: "0,{"1" * (64 * 1024 - 1)}": {PARSING} cannot convert string to integer for '
          f'index: "{"1" * (64 * 1024 - 1)}"']),
        ({"succeededIndexes": "a"},
         [f'.succeededIndexes: Invalid value: "a": {PARSING} cannot convert string to integer for index: "a"']),
        ({"succeededIndexes": "9-10"}, [f'.succeededIndexes: Invalid value: "9-10": {PARSING} too large index: "10"']),
        ({"succeededIndexes": "1-2-3"},
         [f'.succeededIndexes: Invalid value: "1-2-3": {PARSING} the fragment "1-2-3" violates the requirement that an index '
          "interval can have at most two parts separated by '-'"]),
        ({"succeededIndexes": "2-2"},
         [f'.succeededIndexes: Invalid value: "2-2": {PARSING} non-increasing order, previous: 2, current: 2']),
        ({"succeededIndexes": "1-3,3"},
         [f'.succeededIndexes: Invalid value: "1-3,3": {PARSING} non-increasing order, previous: 3, current: 3']),
    ],
)  # fmt: skip
def test_rule_for_success(rule: Object, texts: list[str]) -> None:
    assert indexed(successPolicy={"rules": [rule]}) == [f"successPolicy.rules[0]{text}" for text in texts]


def test_rules_for_success() -> None:
    rule = {"succeededCount": 1}
    assert indexed(successPolicy={"rules": [rule] * 20}) == []
    assert indexed(successPolicy={"rules": [rule] * 21}) == [
        "successPolicy.rules: Too many: 21: must have at most 20 items"
    ]
    assert indexed(successPolicy={"rules": []}) == [
        "successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified"
    ]
    (found,) = of_spec(successPolicy={"rules": [rule]})
    assert found.startswith("successPolicy: Invalid value: ") and found.endswith(": requires indexed completion mode")


UID, NAME = "controller-uid", "job-name"
LABELS = {prefix + key: value for prefix in ("", "batch.kubernetes.io/") for key, value in ((UID, "u"), (NAME, "a"))}
LABELED = "template.metadata.labels"


@pytest.mark.parametrize("label", LABELS)
def test_a_generated_selector_needs_its_labels(label: str) -> None:
    spec = template()
    spec["metadata"] = {"labels": {label: "x"}}
    (found, *_) = of_spec(template=spec)
    assert found.startswith(f"{LABELED}[{label}]: Invalid value: ") and found.endswith(f": must be '{LABELS[label]}'")
    old = made(RESOURCE, metadata={"uid": "u"}, spec={"template": template()})
    new = {**old["spec"], "template": {**old["spec"]["template"], "metadata": {"labels": {**LABELS}}}}
    del new["template"]["metadata"]["labels"][label]
    assert f"spec.{LABELED}[{label}]: Required value: must be '{LABELS[label]}'" in changes(RESOURCE, old, spec=new)


def test_a_generated_selector_needs_a_uid() -> None:
    found = problems(RESOURCE, spec={"template": template()})
    assert "metadata.uid: Required value" in found


def selecting(selector: Object | None, **labels: str) -> list[str]:
    given = {**template(), "metadata": {"labels": labels}}
    return short(of_spec(manualSelector=True, selector=selector, template=given))


def test_a_selector_of_ones_own() -> None:
    assert selecting({"matchLabels": {"a": "b"}}, a="b") == []
    assert selecting(None, a="b") == [
        "selector: Required value",
        f'{LABELED}: Invalid value: {{"a":"b"}}: `selector` does not match template `labels`',
    ]
    assert selecting({"matchLabels": {"a": "-"}}, a="b") == ['selector.matchLabels: Invalid value: "-": <label value>']
    assert selecting({"matchLabels": {"a": "b"}}, c="d") == [
        f'{LABELED}: Invalid value: {{"c":"d"}}: `selector` does not match template `labels`'
    ]


def test_pods_of_an_indexed_job_are_named_after_it() -> None:
    name = "a" * 62
    spec = {"template": template(), "completionMode": "Indexed", "completions": 10}
    assert problems(RESOURCE, metadata={"uid": "u", "name": name[1:]}, spec=spec) == []
    assert problems(RESOURCE, metadata={"uid": "u", "name": name}, spec=spec) == [
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label: {name}-9'
    ]
    without_pods = {**spec, "completions": 0}
    assert problems(RESOURCE, metadata={"uid": "u", "name": name}, spec=without_pods) == []


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"completionMode": "Indexed", "completions": 3, "parallelism": 3}, []),
        ({"completionMode": "Indexed", "completions": 3},
         ["completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"]),
        # upstream checks the spec twice
        ({"backoffLimit": -1}, [f"backoffLimit: Invalid value: -1: {NEGATIVE}"] * 2),
        ({"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u", "job-name": "a"}}},
         ['selector: Invalid value: {"matchLabels":{"batch.kubernetes.io/controller-uid":"u","job-name":"a"}}: '
          "field is immutable"]),
    ],
)  # fmt: skip
def test_changes(spec: Object, texts: list[str]) -> None:
    given = {"template": template(), "completionMode": "Indexed", "completions": 2, "parallelism": 2}
    old = made(RESOURCE, metadata={"uid": "u"}, spec=given)
    assert short(changes(RESOURCE, old, spec={**old["spec"], **spec}), "spec.") == texts


def test_the_name_stays() -> None:
    old = made(RESOURCE, metadata={"uid": "u"}, spec={"template": template(), "manualSelector": True,
                                                      "selector": {"matchLabels": {}}})  # fmt: skip
    found = changes(RESOURCE, old, metadata={**old["metadata"], "name": "b", "resourceVersion": "1"})
    assert found == ['metadata.name: Invalid value: "b": field is immutable']
