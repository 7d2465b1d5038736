"""Conditions of a policy: the first false one decides, and an evaluation without budget is the last one."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.policy import evaluation
from kapi.admission.policy.evaluation import Compiled, compiled, conditions_hold
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import OUT_OF_BUDGET, Composition, EvaluationError
from kapi.testing.memory_api import succeed


class Bindings:
    """Without variables of a request."""

    values: Object = {}

    def __init__(self) -> None:
        self.asked = 0

    async def evaluate(self, expression: Any, budget: int, values: Object) -> tuple[Any, int]:
        self.asked += 1
        found: tuple[Any, int] = expression.evaluate(values, budget)
        return found


COMPOSITION = Composition()


def conditions(*texts: str) -> list[Compiled]:
    return [compiled(text, COMPOSITION.environment) for text in texts]


def asked(*texts: str, ignore: bool = False) -> tuple[object, int, int]:
    """What they say, how many were evaluated, and how many failed."""
    bindings, failed = Bindings(), []
    given = conditions(*texts)

    async def ask() -> bool:
        return await conditions_hold(
            given, bindings, COMPOSITION, None, ignore, lambda took, errors: failed.append(errors)
        )  # type: ignore[arg-type]

    try:
        result: object = succeed(ask())
    except EvaluationError as error:
        result = str(error)
    return result, bindings.asked, sum(failed)


DIVIDED = "expression '1 / 0 == 1' resulted in error: division by zero"


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ((), (True, 0, 0)), (("true",), (True, 1, 0)), (("true", "true"), (True, 2, 0)),
        (("true", "false", "true"), (False, 2, 0)),
        (("1 / 0 == 1", "true"), (DIVIDED, 2, 1)), (("1 / 0 == 1", "false"), (False, 2, 1)),
        (("1 / 0 == 1", "2 / 0 == 1"), (f"[{DIVIDED}, {DIVIDED.replace('1 /', '2 /')}]", 2, 2)),
        (("1 / 0 == 1", "1 / 0 == 1"), (DIVIDED, 2, 2)),
    ],
)  # fmt: skip
def test_the_first_false_one_decides(texts: tuple[str, ...], found: tuple[object, int, int]) -> None:
    assert asked(*texts) == found
    result, *counts = found
    assert asked(*texts, ignore=True) == (result if isinstance(result, bool) else False, *counts)


@pytest.mark.parametrize(
    ("times", "found"),
    [(0, (OUT_OF_BUDGET, 1, 1)), (1, (OUT_OF_BUDGET, 2, 1)), (2, (OUT_OF_BUDGET, 3, 1)), (3, (True, 3, 0))],
)
def test_without_budget_no_further_one_is_evaluated(
    monkeypatch: pytest.MonkeyPatch, times: int, found: tuple[object, int, int]
) -> None:
    text = "[1, 2, 3].all(x, x > 0)"
    [one] = conditions(text)
    assert not isinstance(one, Exception)
    cost = one.evaluate({}, 1000)[1]
    monkeypatch.setattr(evaluation, "MATCH_CONDITIONS_BUDGET", times * cost)
    assert asked(text, text, text) == found
