"""What classes of priorities and of runtimes may say: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.resources.node import RUNTIME_CLASS
from kapi.resources.scheduling.priorityclasses import RESOURCE as PRIORITIES
from tests.resources.strategy_kit import CTX, changes, made, problems

RESERVED = "priority class names with 'system-' prefix are reserved for system use only. error:"
MOST = 1_000_000_000


def of_class(name: str = "a", **parts: Any) -> list[str]:
    return problems(PRIORITIES, metadata={"name": name}, **parts)


@pytest.mark.parametrize(
    ("name", "parts", "texts"),
    [
        ("a", {"value": MOST}, []),
        ("a", {"value": MOST + 1}, [f"value: Forbidden: maximum allowed value of a user defined priority is {MOST}"]),
        ("a", {"preemptionPolicy": "Never"}, []),
        ("a", {"preemptionPolicy": ""}, ["preemptionPolicy: Required value"]),
        ("a", {"preemptionPolicy": "X"},
         ['preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"']),
        ("system-node-critical", {"value": 2_000_001_000}, []),
        ("system-node-critical", {"value": 1},
         [f"metadata.name: Forbidden: {RESERVED} value of system-node-critical PriorityClass must be 2000001000"]),
        ("system-node-critical", {"value": 2_000_001_000, "globalDefault": True},
         [f"metadata.name: Forbidden: {RESERVED} globalDefault of system-node-critical PriorityClass must be false"]),
        ("system-x", {"value": 1}, [f"metadata.name: Forbidden: {RESERVED} system-x is not a known system priority class"]),
    ],
)  # fmt: skip
def test_priority_class(name: str, parts: Object, texts: list[str]) -> None:
    assert of_class(name, **parts) == texts


def test_what_a_priority_class_keeps() -> None:
    old = made(PRIORITIES, value=1)
    assert changes(PRIORITIES, old, description="d", globalDefault=True) == []
    assert changes(PRIORITIES, old, value=2) == ["value: Forbidden: may not be changed in an update."]
    assert changes(PRIORITIES, old, preemptionPolicy="Never") == [
        'preemptionPolicy: Invalid value: "Never": field is immutable'
    ]


def test_classes_of_the_system_stay() -> None:
    PRIORITIES.strategy.admit_delete(made(PRIORITIES, value=1), CTX)
    with pytest.raises(StatusError, match="this is a system priority class and cannot be deleted"):
        PRIORITIES.strategy.admit_delete(made(PRIORITIES, metadata={"name": "system-cluster-critical"}), CTX)


def of_runtime(**parts: Any) -> list[str]:
    return problems(RUNTIME_CLASS, **{"handler": "h", **parts})


TOLERATION = {"key": "k", "operator": "Exists"}


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [TOLERATION]}}, []),
        ({"handler": ""}, ["handler: Required value"]),
        ({"handler": "a.b"}, ['handler: Invalid value: "a.b": must not contain dots']),
        ({"overhead": {"podFixed": {"cpu": "-1"}}},
         ['overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"scheduling": {"tolerations": [{**TOLERATION, "value": "v"}]}},
         ['scheduling.tolerations[0].operator: Invalid value: "v": value must be empty when `operator` is \'Exists\'']),
        ({"scheduling": {"tolerations": [TOLERATION, {**TOLERATION, "effect": "NoSchedule"}]}}, []),
    ],
)  # fmt: skip
def test_runtime_class(parts: Object, texts: list[str]) -> None:
    assert of_runtime(**parts) == texts


def test_scheduling_of_a_runtime_class() -> None:
    (found,) = of_runtime(scheduling={"tolerations": [TOLERATION] * 2})
    assert found.startswith("scheduling.tolerations[1]: Duplicate value: ")
    (found,) = of_runtime(scheduling={"nodeSelector": {"a b": "c"}})
    assert found.startswith('scheduling.nodeSelector: Invalid value: "a b": name part must consist of')


def test_the_overhead_of_a_runtime_class_is_not_rounded() -> None:
    obj: Object = {"handler": "h", "overhead": {"podFixed": {"cpu": "100u"}}}
    RUNTIME_CLASS.strategy.default(obj)
    assert obj["overhead"] == {"podFixed": {"cpu": "100u"}}


def test_the_handler_of_a_runtime_class_stays() -> None:
    old = made(RUNTIME_CLASS, handler="h")
    assert changes(RUNTIME_CLASS, old, overhead={"podFixed": {"cpu": "1"}}) == []
    assert changes(RUNTIME_CLASS, old, handler="i") == ['handler: Invalid value: "i": field is immutable']
