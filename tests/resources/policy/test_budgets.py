"""Disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.definition import StrategyContext
from kapi.resources.policy import POD_DISRUPTION_BUDGET
from tests.resources.strategy_kit import changes, short

CTX = StrategyContext("n", "b", now="2024-01-01T00:00:00Z")


def budget(**spec: Any) -> Object:
    obj: Object = {
        "metadata": {"name": "b", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, **spec},
    }
    POD_DISRUPTION_BUDGET.strategy.default(obj)
    POD_DISRUPTION_BUDGET.strategy.prepare_for_create(obj, CTX)
    return obj


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "minAvailable and maxUnavailable cannot be both set"),
        ({"minAvailable": -1}, "spec.minAvailable: Invalid value: -1"),
        ({"maxUnavailable": "120%"}, 'spec.maxUnavailable: Invalid value: "120%": must not be greater than 100%'),
        ({"maxUnavailable": "half"}, 'spec.maxUnavailable: Invalid value: "half"'),
        ({"unhealthyPodEvictionPolicy": "Maybe"}, 'spec.unhealthyPodEvictionPolicy: Unsupported value: "Maybe"'),
        ({"selector": {"matchLabels": {"a b": "c"}}}, 'spec.selector.matchLabels: Invalid value: "a b"'),
    ],
)
def test_what_budgets_may_not_be(spec: Object, text: str) -> None:
    lines = [str(error) for error in POD_DISRUPTION_BUDGET.strategy.validate(budget(**spec), CTX)]
    assert any(text in line for line in lines), lines


def test_generation_and_status() -> None:
    old = budget(minAvailable=1)
    assert POD_DISRUPTION_BUDGET.strategy.validate(old, CTX) == [] and old["metadata"]["generation"] == 1
    new = tree.copy(old)
    new["spec"]["minAvailable"] = "50%"
    new["status"] = {"currentHealthy": 9}
    POD_DISRUPTION_BUDGET.strategy.prepare_for_update(new, old, CTX)
    assert (new["metadata"]["generation"], new.get("status")) == (2, old.get("status"))
    assert POD_DISRUPTION_BUDGET.strategy.validate_update(new, old, CTX) == []


def test_a_change_is_checked_but_for_values_of_a_selector_that_was_accepted() -> None:
    bad: Object = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}
    assert changes(POD_DISRUPTION_BUDGET, budget(), spec={"minAvailable": -1}) == [
        "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"
    ]
    assert short(changes(POD_DISRUPTION_BUDGET, budget(), spec={"selector": bad})) == [
        'spec.selector.matchExpressions[0].values[0]: Invalid value: "-": <label value>'
    ]
    assert changes(POD_DISRUPTION_BUDGET, budget(selector=bad), spec={"selector": bad, "minAvailable": 1}) == []


COUNTS: Object = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        ({}, []),
        *(({name: -1}, [f"{name}: Invalid value: -1: must be greater than or equal to 0"]) for name in COUNTS),
        ({"conditions": [{"type": "A", "status": "True", "reason": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}]},
         ["conditions[0].reason: Required value"]),
    ],
)  # fmt: skip
def test_status(status: Object, texts: list[str]) -> None:
    found = changes(POD_DISRUPTION_BUDGET, budget(), subresource="status", status={**COUNTS, **status})
    assert short(found, "status.") == texts


def test_rows() -> None:
    table = POD_DISRUPTION_BUDGET.table
    assert table is not None
    row = dict(zip([column.name for column in table.columns], table.cells(budget(minAvailable=1), 0.0), strict=True))
    assert (row["Min Available"], row["Max Unavailable"], row["Allowed Disruptions"]) == ("1", "N/A", 0)
