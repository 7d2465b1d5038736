"""The rules of a custom resource's schema: what each error says, where the next rules still run, and what runs out."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.cel import TimeExceeded
from kapi.machinery.field import Path
from kapi.schema.structural import rules
from kapi.schema.structural.rules import Budget, validator

Schema = dict[str, Any]
NUMBER: Schema = {"type": "integer"}
TEXT: Schema = {"type": "string"}
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
MESSAGE_OUT_OF_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)


def ruled(schema: Schema, *rules: str | Schema) -> Schema:
    found = [{"rule": rule} if isinstance(rule, str) else {"rule": "self < 0", **rule} for rule in rules]
    return {**schema, "x-kubernetes-validations": found}


def fields(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def said(schema: Schema, new: Any, old: Any = None, budget: Budget | None = None) -> list[str]:
    found = validator(fields(a=schema))
    assert found is not None
    before = None if old is None else {"a": old}
    return [str(error) for error in found.validate(Path(""), {"a": new}, before, budget or Budget())]


def message(expression: str) -> Schema:
    return ruled(NUMBER, {"message": " plain ", "messageExpression": expression})


@pytest.mark.parametrize(
    ("schema", "new", "old", "texts"),
    [
        (ruled(NUMBER, "self < 0", " self > 5 "), 1, None, [
            "a: Invalid value: 1: failed rule: self < 0", "a: Invalid value: 1: failed rule: self > 5",
        ]),
        (ruled(NUMBER, "self < 0"), None, None, []),
        (ruled(NUMBER, " ", "self > 1"), 1, None, ["a: Invalid value: 1: failed rule: self > 1"]),
        # what is wrong with one rule leaves the next ones as they are
        (ruled(NUMBER, "self + 1", "self > 1"), 1, None, [
            'a: Invalid value: "integer": rule compile error: cel expression must evaluate to a bool',
            "a: Invalid value: 1: failed rule: self > 1",
        ]),
        (ruled(NUMBER, "10 / self > 0", "self > 1"), 0, None, [
            'a: Invalid value: "integer": division by zero evaluating rule: 10 / self > 0',
            "a: Invalid value: 0: failed rule: self > 1",
        ]),
        (ruled(NUMBER, {"rule": "10 / self > 0", "message": " told "}), 0, None, [
            'a: Invalid value: "integer": division by zero evaluating rule: told',
        ]),
        (ruled({"x-kubernetes-int-or-string": True}, "self + 1 > 0"), "x", None, [
            "a: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function or macro "
            "signature for rule: self + 1 > 0",
        ]),
        # reasons and fields
        (ruled(NUMBER, {"reason": "FieldValueRequired", "message": "m"}), 1, None, ["a: Required value: m"]),
        (ruled(NUMBER, {"reason": "FieldValueForbidden", "message": "m"}), 1, None, ["a: Forbidden: m"]),
        (ruled(NUMBER, {"reason": "FieldValueDuplicate", "message": "m"}), 1, None, ["a: Duplicate value: 1"]),
        (ruled(NUMBER, {"reason": "FieldValueInvalid", "message": "m"}), 1, None, ["a: Invalid value: 1: m"]),
        (ruled({"type": "array", "items": NUMBER}, "self.size() > 1"), [1], None, [
            "a: Invalid value: failed rule: self.size() > 1",
        ]),
        (ruled(fields(b=NUMBER), {"rule": "false", "fieldPath": ".b", "message": "m"}), {}, None, ["a.b: Invalid value: m"]),
        (ruled(fields(b=NUMBER), {"rule": "false", "fieldPath": ".c", "message": "m"}), {}, None, ["a: Invalid value: m"]),
        # below lists, maps, and fields whose names are none of CEL's
        ({"type": "array", "items": ruled(NUMBER, "self < 2")}, [1, 2, 3], None, [
            "a[1]: Invalid value: 2: failed rule: self < 2", "a[2]: Invalid value: 3: failed rule: self < 2",
        ]),
        ({"type": "object", "additionalProperties": ruled(NUMBER, "self < 2")}, {"x": 1, "y": 2}, None, [
            "a[y]: Invalid value: 2: failed rule: self < 2",
        ]),
        ({"type": "object", "additionalProperties": ruled(NUMBER, "self > oldSelf")}, {"x": 1, "y": 2, "z": 0},
         {"x": 1, "y": 1}, ["a[x]: Invalid value: 1: failed rule: self > oldSelf"]),
        ({"type": "object", "additionalProperties": ruled(NUMBER, "self > oldSelf")}, {"x": 1}, [1], []),
        (fields(**{"b-c": ruled(NUMBER, "self < 2"), "ü": ruled(NUMBER, "self < 2")}), {"b-c": 2, "ü": 3}, None, [
            "a.b-c: Invalid value: 2: failed rule: self < 2", "a.ü: Invalid value: 3: failed rule: self < 2",
        ]),
        # values from before
        (ruled(NUMBER, "self > oldSelf"), 1, None, []),
        (ruled(NUMBER, "self > oldSelf"), 1, 1, ["a: Invalid value: 1: failed rule: self > oldSelf"]),
        (ruled(NUMBER, {"rule": "oldSelf.hasValue()", "optionalOldSelf": True}), 1, None, [
            "a: Invalid value: 1: failed rule: oldSelf.hasValue()",
        ]),
        (ruled(NUMBER, {"rule": "oldSelf.orValue(0) < 1", "optionalOldSelf": True}), 1, 1, [
            "a: Invalid value: 1: failed rule: oldSelf.orValue(0) < 1",
        ]),
        # messages that are made; the plain one stands in for one that is none
        (message("' was ' + string(self) + ' '"), 1, None, ["a: Invalid value: 1: was 1"]),
        (message("string(10 / self)"), 0, None, ["a: Invalid value: 0: plain"]),
        (message("' \t'"), 1, None, ["a: Invalid value: 1: plain"]),
        (message(r"'a\nb'"), 1, None, ["a: Invalid value: 1: plain"]),
        (message(r"'a\n'"), 1, None, ["a: Invalid value: 1: a"]),
        (message(f"'{'é' * 2560} '"), 1, None, [f"a: Invalid value: 1: {'é' * 2560}"]),
        (message(f"'{'é' * 2560}a'"), 1, None, ["a: Invalid value: 1: plain"]),
        (message("self"), 1, None, ["a: Invalid value: 1: plain"]),
        (ruled(NUMBER, {"messageExpression": "string(10 / self)"}), 0, None, ["a: Invalid value: 0: failed rule: self < 0"]),
        (ruled(NUMBER, {"rule": "self < oldSelf", "messageExpression": "'was ' + string(oldSelf)"}), 2, 1, [
            "a: Invalid value: 2: was 1",
        ]),
        # the value from before is no optional one for messages, whatever their type says
        (ruled(NUMBER, {"rule": "oldSelf.orValue(0) < 1", "optionalOldSelf": True, "message": "plain",
                        "messageExpression": "'was ' + string(oldSelf.value())"}), 1, 1, ["a: Invalid value: 1: plain"]),
        (ruled(NUMBER, {"rule": "oldSelf.hasValue()", "optionalOldSelf": True, "message": "plain",
                        "messageExpression": "'was ' + string(oldSelf.orValue(0))"}), 1, None, ["a: Invalid value: 1: plain"]),
    ],
)  # fmt: skip
def test_what_rules_say(schema: Schema, new: Any, old: Any, texts: list[str]) -> None:
    assert said(schema, new, old) == texts


def cost(schema: Schema, new: Any) -> int:
    budget = Budget(1000)
    said(schema, new, budget=budget)
    return 1000 - budget.remaining


@pytest.mark.parametrize(
    "schema", [NUMBER, {"type": "array", "items": NUMBER}, fields(b=NUMBER)], ids=lambda s: s["type"]
)
def test_without_budget_no_further_rule_runs(schema: Schema) -> None:
    """Neither of the same value nor of those below and beside it."""
    value = {"integer": 1, "array": [1, 2], "object": {"b": 1}}[schema["type"]]
    found = validator(fields(a=ruled(schema, "self != self", "self != self"), b=ruled(TEXT, "self == 'x'")))
    assert found is not None
    one = cost(ruled(schema, "self != self"), value)
    texts = [[error.detail for error in found.validate(Path(""), {"a": value, "b": "y"}, None, Budget(given))]
             for given in (0, one - 1, one, 2 * one - 1, 2 * one)]  # fmt: skip
    failed = "failed rule: self != self"
    assert texts == [
        [OUT_OF_BUDGET], [OUT_OF_BUDGET], [failed, OUT_OF_BUDGET], [failed, OUT_OF_BUDGET], [failed, failed, OUT_OF_BUDGET],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "value", "paths"),
    [
        ({"type": "array", "items": ruled(NUMBER, "self < 0")}, [1, 2, 3], ["a[0]", "a[1]"]),
        ({"type": "object", "additionalProperties": ruled(NUMBER, "self < 0")}, {"x": 1, "y": 2, "z": 3}, ["a[x]", "a[y]"]),
        (fields(x=ruled(NUMBER, "self < 0"), y=ruled(NUMBER, "self < 0"), z=ruled(NUMBER, "self < 0")),
         {"x": 1, "y": 2, "z": 3}, ["a.x", "a.y"]),
    ],
)  # fmt: skip
def test_without_budget_the_next_values_are_not_looked_at(schema: Schema, value: Any, paths: list[str]) -> None:
    budget = Budget(cost(ruled(NUMBER, "self < 0"), 1))
    texts = said(schema, value, budget=budget)
    assert [text.partition(":")[0] for text in texts] == paths
    assert texts[1].endswith(OUT_OF_BUDGET)
    assert budget.spent


def test_a_rule_that_costs_too_much_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "PER_CALL_LIMIT", 10)
    numbers = {"type": "array", "items": NUMBER}
    budget = Budget()
    assert said(ruled(numbers, "self.all(x, x > 0)", "false"), [1] * 20, budget=budget) == [
        "a: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run "
        "due to call cost exceeds limit for rule: self.all(x, x > 0)"
    ]
    assert budget.spent
    wordy = {"rule": "false", "messageExpression": "self.all(x, x > 0) ? 'a' : 'b'"}
    budget = Budget()
    assert said(ruled(numbers, wordy, "false"), [1] * 20, budget=budget) == [
        'a: Invalid value: "array": no further validation rules will be run due to call cost exceeds limit for '
        "messageExpression: \"self.all(x, x > 0) ? 'a' : 'b'\""
    ]
    assert budget.spent
    texts = said(ruled(numbers, wordy, "false"), [1] * 20, budget=Budget(5))
    assert texts == [f'a: Invalid value: "array": {MESSAGE_OUT_OF_BUDGET}']


@pytest.mark.parametrize("expression", ["'was ' + string(self)", "string(10 / (self - 1))"])
def test_messages_cost(expression: str) -> None:
    schema = ruled(NUMBER, {"messageExpression": expression})
    rule, both = cost(ruled(NUMBER, {}), 1), cost(schema, 1)
    assert both > rule
    budget = Budget(both)
    assert len(said(schema, 1, budget=budget)) == 1
    assert (budget.remaining, budget.spent) == (0, False)
    budget = Budget(both - 1)
    assert said(schema, 1, budget=budget) == [f'a: Invalid value: "integer": {MESSAGE_OUT_OF_BUDGET}']
    assert budget.spent


@pytest.mark.parametrize("where", ["rule", "messageExpression"])
def test_the_time_of_an_evaluation_ends_it(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """It is no error of the object."""
    budget = Budget(seconds=100.0)
    slow = "self.all(x, self.all(y, x + y > 0))"
    rule = {"rule": slow} if where == "rule" else {"rule": "false", "messageExpression": f"{slow} ? 'a' : 'b'"}
    budget.deadline -= 200.0
    with pytest.raises(TimeExceeded):
        said(ruled({"type": "array", "items": NUMBER}, rule), [1] * 100, budget=budget)
