"""The estimated costs of rules: what is added up, how often a rule runs at most, and what is said of too much."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.cel.sizes import MAX_UINT64
from kapi.machinery.field import Path
from kapi.resources.apiextensions.rule_costs import MAX_RULE_COST, MAX_SCHEMA_COST, CostContext, TotalCost, cost_text

TEXT = {"type": "string"}


def test_costs_are_added_and_the_four_largest_are_listed() -> None:
    total = TotalCost()
    for number, cost in enumerate([999_999, 1_000_000, 5, 3_000_000, 2_000_000, 1_000_000, 4_000_000, 1_000_001]):
        total.add(Path(f"p{number}"), cost)
    assert total.total == 13_000_005
    assert [(cost, str(path)) for cost, path in total.expensive] == [
        (4_000_000, "p6"), (3_000_000, "p3"), (2_000_000, "p4"), (1_000_001, "p7"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("costs", "total"), [([MAX_UINT64, 1], MAX_UINT64), ([MAX_UINT64 - 1, 1], MAX_UINT64), ([1, 2], 3)]
)
def test_a_sum_ends_at_the_largest_number(costs: list[int], total: int) -> None:
    found = TotalCost()
    for cost in costs:
        found.add(Path("p"), cost)
    assert found.total == total


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"type": "object"}, 1),
        (TEXT, 1),
        ({"type": "object", "maxProperties": 5}, 1),
        ({"type": "object", "additionalProperties": TEXT, "maxProperties": 5}, 5),
        ({"type": "object", "additionalProperties": TEXT}, None),
        ({"type": "array", "items": TEXT, "maxItems": 5}, 5),
        ({"type": "array", "items": TEXT, "maxItems": 0}, 0),
        ({"type": "array", "items": TEXT, "maxItems": -1}, 0),
        ({"type": "array", "items": TEXT}, None),
    ],
)
def test_how_often_a_rule_below_runs(schema: Any, count: int | None) -> None:
    root = CostContext({"type": "array", "maxItems": 3, "items": schema}, TotalCost(), is_root=True)
    assert root.count == 1
    item = root.child(schema, "items")
    assert item.count == 3
    below = item.child(TEXT, "items")
    assert below.count == (None if count is None else 3 * count)
    assert below.child(TEXT, "items").count == below.count


def test_how_often_ends_at_the_largest_number() -> None:
    node = CostContext({"type": "array", "maxItems": 1 << 40}, TotalCost())
    for _ in range(2):
        node = node.child({"type": "array", "maxItems": 1 << 40}, "items")
    assert node.count == MAX_UINT64
    assert node.child({"type": "array"}, "items").child(TEXT, "items").count is None


@pytest.mark.parametrize(
    ("cost", "factor"),
    [
        (MAX_RULE_COST + 1, "1.000000x"), (MAX_RULE_COST * 3 // 2 - 1, "1.500000x"), (MAX_RULE_COST * 3 // 2, "1.5x"),
        (MAX_RULE_COST * 100, "100.0x"), (MAX_RULE_COST * 100 + 1, "more than 100x"),
    ],
)  # fmt: skip
def test_by_how_much_a_cost_is_too_high(cost: int, factor: str) -> None:
    assert cost_text("rule", cost, MAX_RULE_COST) == (
        f"rule exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )
    assert (MAX_RULE_COST, MAX_SCHEMA_COST) == (10_000_000, 100_000_000)


@pytest.mark.parametrize(
    ("kind", "name", "schema", "type_"),
    [
        ("property", "a-b", TEXT, "string"),
        ("property", "ü", {"type": "integer"}, "int"),  # not to be written in rules: declared by itself
        ("items", "", TEXT, "list(string)"),
    ],
)
def test_the_type_of_a_node_is_a_part_of_its_parents(kind: str, name: str, schema: Any, type_: str) -> None:
    whole: Any = {"type": "object", "properties": {"a-b": TEXT, "ü": {"type": "integer"}}}
    if kind == "items":
        whole, schema = {"type": "array", "items": {"type": "array", "items": TEXT}}, {"type": "array", "items": TEXT}
    root = CostContext(whole, TotalCost(), is_root=kind == "property")
    node = root.child(schema, kind, name)
    found = node.type()
    assert found is not None and str(found.type) == type_
    assert node.type() is found
    above = root.type()
    assert above is not None
    assert found is (
        above.elem if kind == "items" else above.fields.get("a__dash__b", found) if name == "a-b" else found
    )
