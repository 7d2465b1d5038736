"""Match conditions that are stored may stay, though this version would refuse them."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.cel.errors import EvaluationError
from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import CompileError, Composition, LazyVariables
from kapi.resources.catalogue import BUILT_IN
from tests.resources.strategy_kit import changes, made

ROWS = {row.plural: row for row in BUILT_IN}
RULES: Object = {"resourceRules": [
    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]},
]}  # fmt: skip
NOPE: Object = {"name": "m", "expression": "nope"}
PARAMS: Object = {"apiVersion": "v1", "kind": "ConfigMap"}


def policy(**spec: Any) -> Object:
    return {"matchConstraints": RULES, "validations": [{"expression": "true"}], "matchConditions": [NOPE], **spec}


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (policy(), policy(), False),
        (policy(), policy(validations=[{"expression": "1 == 1"}]), False),
        (policy(), policy(matchConditions=[{**NOPE, "name": "n"}]), True),
        (policy(), policy(paramKind=PARAMS), True),
        (policy(paramKind=PARAMS), policy(paramKind=PARAMS), False),
        (policy(paramKind=PARAMS), policy(), True),
    ],
)
def test_of_a_policy(before: Object, after: Object, refused: bool) -> None:
    row = ROWS["validatingadmissionpolicies"]
    found = changes(row, made(row, spec=before), spec=made(row, spec=after)["spec"])
    assert [text.partition(":")[0] for text in found] == ["spec.matchConditions[0].expression"] * refused


def webhook(**parts: Any) -> Object:
    given = {
        "name": "a.example.com", "clientConfig": {"url": "https://a.example.com"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "matchConditions": [NOPE],
    }  # fmt: skip
    return {**given, **parts}


@pytest.mark.parametrize("plural", ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"])
@pytest.mark.parametrize(
    ("after", "refused"), [(webhook(), False), (webhook(matchConditions=[{**NOPE, "name": "n"}]), True)]
)
def test_of_a_webhook(plural: str, after: Object, refused: bool) -> None:
    row = ROWS[plural]
    old, new = (made(row, webhooks=[tree.copy(hook)]) for hook in (webhook(), after))
    found = changes(row, old, webhooks=new["webhooks"])
    assert [text.partition(":")[0] for text in found] == ["webhooks[0].matchConditions[0].expression"] * refused


def test_variables_cost_what_they_cost_once() -> None:
    """Of a budget they may use all, and no more."""
    composition = Composition()
    composition.add("one", "[1, 2].all(x, x > 0)")
    composition.add("two", "variables.one && variables.one")
    with pytest.raises(CompileError):
        composition.add("bad", "1 +")

    def costs(name: str, budget: int = 10_000) -> int:
        variables = LazyVariables(composition, {}, budget)
        for _ in range(2):
            assert variables[name] is True
        return variables.cost

    one, two = costs("one"), costs("two")
    assert two > one > 0
    assert (costs("one", one), costs("two", two)) == (one, two)
    with pytest.raises(EvaluationError, match='composited variable "one" fails to evaluate: '):
        costs("one", one - 1)
    variables = LazyVariables(composition, {"a": 1}, 10_000)
    for _ in range(2):
        with pytest.raises(EvaluationError, match='composited variable "bad" fails to compile: '):
            variables["bad"]
    assert [name in variables for name in ("one", "bad", "three")] == [True, True, False]
