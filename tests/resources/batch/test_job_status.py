"""What the status of a Job may say, and which of its changes are refused: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.batch.jobs import RESOURCE
from tests.resources.strategy_kit import changes, made

AT, LATER = "2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z"
MET, TARGET = "SuccessCriteriaMet", "FailureTarget"
INDEXED = {"completionMode": "Indexed", "completions": 5}
PER_INDEX = {**INDEXED, "backoffLimitPerIndex": 1}
POLICY = {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0-2"}]}}
FREE = "conditions: Invalid value: "
IMMUTABLE = "Invalid value: " + f'"{LATER}": field is immutable'


def job(before: Object, spec: Object) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}
    obj = made(RESOURCE, metadata={"uid": "u"}, spec={"template": {"spec": pod}, **spec})
    obj["status"] = tree.copy(before)
    return obj


def errors(before: Object, after: Object, **spec: Any) -> list[str]:
    found = changes(RESOURCE, job(before, spec), subresource="status", status=after)
    return [text.removeprefix("status.") for text in found]


def told(*kinds: str, **status: Any) -> Object:
    """A status with these conditions, each with "True" unless its name ends with "-"."""
    conditions = [
        {"type": kind.removesuffix("-"), "status": "False" if kind.endswith("-") else "True"} for kind in kinds
    ]
    return {"conditions": conditions, **status}


def complete(**status: Any) -> Object:
    return told(MET, "Complete", startTime=AT, completionTime=AT, **status)


def failed(**status: Any) -> Object:
    return told(TARGET, "Failed", startTime=AT, **status)


# -- counts and pods ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["active", "succeeded", "failed", "ready", "terminating"])
def test_counts_are_not_negative(name: str) -> None:
    before = {name: -2} if name in ("succeeded", "failed") else {}
    assert errors({}, {name: 0}) == []
    assert errors(before, {name: -1}) == [f"{name}: Invalid value: -1: must be greater than or equal to 0"]


@pytest.mark.parametrize("name", ["succeeded", "failed"])
def test_counts_of_ended_pods_only_grow(name: str) -> None:
    assert errors({name: 3}, {name: 4}) == []
    assert errors({name: 3}, {name: 1}) == [f"{name}: Invalid value: 1: cannot decrease the {name} counter"]
    assert errors({name: 3}, {}) == [f"{name}: Invalid value: 0: cannot decrease the {name} counter"]


def test_an_elastic_job_may_have_fewer_succeeded_pods() -> None:
    elastic = {**INDEXED, "parallelism": 5}
    assert errors({"succeeded": 3}, {"succeeded": 1}, **elastic) == []
    assert errors({"succeeded": 3}, {"succeeded": 1}, **{**elastic, "parallelism": 4}) != []
    assert errors({"failed": 3}, {"failed": 1}, **elastic) == [
        "failed: Invalid value: 1: cannot decrease the failed counter"
    ]


def test_no_more_pods_are_ready_than_active() -> None:
    text = "ready: Invalid value: 2: cannot set more ready pods than active"
    assert errors({"active": 2}, {"active": 2, "ready": 2}) == []
    assert errors({"active": 2}, {"active": 1, "ready": 2}) == [text]
    assert errors({"active": 1, "ready": 2}, {"active": 1, "ready": 2, "succeeded": 1}) == []


def test_pods_to_be_counted_have_each_one_uid() -> None:
    pods = {"succeeded": ["a", ""], "failed": ["b", "a", "b"]}
    assert errors({}, {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]}}) == []
    assert errors({}, {"uncountedTerminatedPods": pods}) == [
        'uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
        'uncountedTerminatedPods.failed[1]: Duplicate value: "a"',
        'uncountedTerminatedPods.failed[2]: Duplicate value: "b"',
    ]


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_job_ends_once_with_all_that_belongs_to_it() -> None:
    assert errors({}, complete()) == []
    assert errors({}, failed()) == []
    assert errors(told(MET, startTime=AT), complete(), **POLICY) == []
    assert errors({}, told(MET)) == []


def test_ends_exclude_each_other() -> None:
    both = told("Complete", "Failed", TARGET, MET, startTime=AT, completionTime=AT)
    assert errors({}, both) == [
        FREE + "cannot set Complete=True and Failed=true conditions",
        FREE + "cannot set Complete=True and FailureTarget=true conditions",
        FREE + "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        FREE + "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    ]
    assert errors(both, {**both, "succeeded": 1})[:2] == [
        FREE + "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        FREE + "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    ]


def test_an_end_is_announced_first() -> None:
    assert errors({}, told("Failed", startTime=AT)) == [
        FREE + "cannot set Failed=True condition without the FailureTarget=true condition"
    ]
    assert errors({}, told("Complete", startTime=AT, completionTime=AT)) == [
        FREE + "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
    ]
    old = told("Failed", startTime=AT)
    assert errors(old, {**old, "failed": 1}) == []
    assert errors(old, {**old, "failedIndexes": "1"}, **PER_INDEX) == [
        FREE + "cannot set Failed=True condition without the FailureTarget=true condition"
    ]


def test_a_success_policy_is_met_before_the_job_is_complete() -> None:
    text = FREE + "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
    old = told("Complete", startTime=AT, completionTime=AT)
    assert errors(old, {**old, "succeeded": 1}, **POLICY) == [text]
    assert errors(old, complete(), **POLICY) == [
        FREE + "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
    ]


@pytest.mark.parametrize("kind", ["Failed", "Complete", TARGET])
def test_an_end_stays(kind: str) -> None:
    assert errors(told(kind), told(f"{kind}-")) == [FREE + f"cannot disable the terminal {kind}=True condition"]
    assert errors(told(kind), {}) == [FREE + f"cannot disable the terminal {kind}=True condition"]


def test_met_criteria_stay_met() -> None:
    assert errors(told(MET), {}) == [FREE + "cannot disable the SuccessCriteriaMet=True condition"]


def test_nothing_runs_after_the_end() -> None:
    pods = {"succeeded": ["a"]}
    assert errors({}, complete(active=1)) == ["active: Invalid value: 1: active>0 is invalid for finished job"]
    assert errors({}, failed(terminating=1)) == [
        "terminating: Invalid value: 1: terminating>0 is invalid for finished job"
    ]
    assert errors({}, complete(uncountedTerminatedPods=pods)) == [
        'uncountedTerminatedPods: Invalid value: {"Succeeded":["a"],"Failed":null}: must be empty for finished job'
    ]
    for part in ({"active": 1}, {"terminating": 1}, {"uncountedTerminatedPods": pods}):
        old = complete(**part)
        assert errors(old, {**old, "failed": 1}) == []


# -- times -------------------------------------------------------------------------------------------------------------


def test_a_finished_job_has_started() -> None:
    text = "startTime: Required value: startTime is required for finished job"
    late = told(MET, "Complete", completionTime=AT)
    assert errors({}, told("Failed", TARGET)) == [text]
    assert errors({}, late) == [text]
    assert errors({}, late, suspend=True, completions=0) == []
    assert errors({}, late, suspend=True, completions=1) == [text]


def test_completion_time_belongs_to_a_complete_job() -> None:
    text = "cannot set completionTime when there is no Complete=True condition"
    assert errors({}, {"completionTime": AT}) == [f'completionTime: Invalid value: "{AT}": {text}']
    assert errors({"completionTime": AT}, {"completionTime": AT, "active": 1}) == []
    assert errors({"completionTime": AT}, {}) == []
    assert errors({}, told(MET, "Complete", startTime=AT)) == [
        "completionTime: Required value: completionTime is required for Complete jobs"
    ]


def test_completion_time_is_set_once_and_not_before_the_start() -> None:
    old = complete()
    assert errors(old, {**old, "completionTime": LATER}) == ["completionTime: " + IMMUTABLE]
    text = "must be equal to or after `startTime`"
    assert errors({"startTime": LATER}, {**old, "startTime": LATER}) == [
        f'completionTime: Invalid value: "{AT}": {text}'
    ]


def test_start_time_changes_only_around_a_suspension() -> None:
    text = "field is immutable for unsuspended job once set"
    assert errors({}, {"startTime": AT}) == []
    assert errors({"startTime": AT}, {"startTime": LATER}) == [f'startTime: Invalid value: "{LATER}": {text}']
    assert errors({"startTime": AT}, {}) == [f"startTime: Invalid value: null: {text}"]
    assert errors({"startTime": AT}, {"startTime": LATER}, suspend=True) == []
    assert errors(told("Suspended", startTime=AT), told("Suspended-", startTime=LATER)) == []
    assert errors(told("Suspended", startTime=AT), told("Suspended", startTime=LATER)) != []


# -- indexes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0,2-4", ""),
        ("", ""),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("5", 'too large index: "5"'),
        ("1,0", "non-increasing order, previous: 1, current: 0"),
        ("3-2", "non-increasing order, previous: 3, current: 2"),
        (
            "1-2-3",
            'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated '
            "by '-'",
        ),
    ],
)
def test_lists_of_indexes_are_readable(text: str, problem: str) -> None:
    for name in ("completedIndexes", "failedIndexes"):
        found = errors({}, {name: text}, **PER_INDEX)
        if problem:
            assert found[0] == f'{name}: Invalid value: "{text}": error parsing {name}: {problem}'
            assert errors({name: text}, {name: text, "active": 1}, **PER_INDEX) == []
        else:
            assert found == []


def test_only_an_indexed_job_has_indexes() -> None:
    text = "cannot set non-empty completedIndexes when non-indexed completion mode"
    assert errors({}, {"completedIndexes": "0"}, completions=5) == [f'completedIndexes: Invalid value: "0": {text}']
    assert errors({"completedIndexes": "0"}, {"completedIndexes": "0", "active": 1}, completions=5) == []
    text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
    assert errors({}, {"failedIndexes": "0"}, **INDEXED) == [f'failedIndexes: Invalid value: "0": {text}']


def test_no_index_both_failed_and_completed() -> None:
    before = {"failedIndexes": "0,2", "completedIndexes": "3-4"}
    after = {**before, "completedIndexes": "2-4"}
    found = errors(before, after, **PER_INDEX)
    assert len(found) == 1
    assert found[0].startswith('failedIndexes: Invalid value: "0,2": ')
    assert errors(after, {**after, "active": 1}, **PER_INDEX) == []
