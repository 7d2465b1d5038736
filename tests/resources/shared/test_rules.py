"""The combinators that rules are written with."""

from __future__ import annotations

from typing import Any

from kapi.machinery.field import Path
from kapi.resources.shared.rules import (
    Rule,
    all_of,
    at,
    check,
    each,
    enum,
    first_of,
    in_range,
    max_items,
    max_length,
    minimum,
    required,
    struct,
    unique,
    unless_empty,
)


def told(rule: Rule, value: Any, ctx: Any = None) -> list[str]:
    errors: list[Any] = []
    rule(value, Path("spec"), errors, ctx)
    return [str(error) for error in errors]


def test_errors_come_in_the_order_of_the_rules() -> None:
    rule = struct(required("b"), at("a", enum("x", "y")), at("c", in_range(1, 5)))
    assert told(rule, {"a": "z", "c": 9}) == [
        "spec.b: Required value",
        'spec.a: Unsupported value: "z": supported values: "x", "y"',
        "spec.c: Invalid value: 9: must be between 1 and 5, inclusive",
    ]
    assert told(rule, {"b": "1", "a": "x", "c": 1}) == []


def test_absent_fields_are_left_alone_unless_they_count_as_zero() -> None:
    assert told(at("n", minimum(1)), {}) == []
    assert told(at("n", minimum(1), zero=0), {}) == ["spec.n: Invalid value: 0: must be greater than or equal to 1"]


def test_lists_and_maps() -> None:
    rule = at("list", max_items(2), unique(lambda item: item["k"], "k"), each(at("k", max_length(1))))
    assert told(rule, {"list": [{"k": "a"}, {"k": "a"}]}) == ['spec.list[1].k: Duplicate value: "a"']
    assert told(rule, {"list": [{"k": "ab"}, {"k": "c"}, {"k": "d"}]}) == [
        "spec.list: Too many: 3: must have at most 2 items",
        "spec.list[0].k: Too long: may not be more than 1 byte",
    ]


def test_first_of_stops_and_all_of_goes_on() -> None:
    short, low = check(lambda text: ["bad"]), check(lambda text: ["worse"])
    assert len(told(all_of(short, low), "x")) == 2
    assert told(first_of(short, low), "x") == ['spec: Invalid value: "x": bad']


def test_what_is_empty_needs_no_rule() -> None:
    assert told(unless_empty("x", enum("y")), {"x": ""}) == []
