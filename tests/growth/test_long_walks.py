"""What walks a client's data beside bodies' fields - selectors of a query, schemas, comparisons - comes to checkpoints, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.selectors import parse_fields, parse_labels
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.schema_rules import walk_schemas
from kapi.schema.custom import count
from tests.growth.counting import stretches

MANY = 2000
TEXTS = [f"v{number}" for number in range(MANY)]

LABELS = ",".join(f"{text}=1" for text in TEXTS)
FIELDS = ",".join(f"{text}!=1" for text in TEXTS)
SCHEMA: Object = {"properties": {text: {} for text in TEXTS}}
REVERSED: Object = {"properties": {text: {} for text in reversed(TEXTS)}}
ONE, OTHER = ([{"k": text} for text in TEXTS] for _ in range(2))

WALKS: dict[str, Callable[[], object]] = {
    "values of a label selector": lambda: parse_labels("k in (" + ",".join(TEXTS) + ")"),
    "terms of a label selector": lambda: parse_labels(LABELS),
    "terms of a field selector": lambda: parse_fields(FIELDS),
    "a long value of a field selector": lambda: parse_fields("metadata.name=" + "\\," * MANY),
    "items of a custom resource": lambda: count({"spec": {"list": TEXTS}}, None),
    "properties of a schema": lambda: walk_schemas(SCHEMA),
    "lists that are compared": lambda: tree.equal(ONE, OTHER),
    "texts that are compared": lambda: tree.equal(TEXTS, [*TEXTS]),
    "fields that are compared": lambda: tree.equal(SCHEMA, REVERSED),
}


@pytest.mark.parametrize("name", WALKS)
def test_long_lists_are_walked_in_steps(name: str) -> None:
    found = stretches(WALKS[name])
    assert found.longest < MANY / 2, found.where


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [{"b": [1]}]}, {"a": [{"b": [2]}]}, False),
        ({"a": []}, {"a": {}}, False),
        ({"a": {}}, {"a": None}, False),
        ([], {}, False),
    ],
)
def test_trees_are_equal_as_python_has_it(one: Any, other: Any, wanted: bool) -> None:
    """Also in slices, where each part is looked at."""
    assert tree.equal(one, other) is wanted
    found: list[bool] = []
    stretches(lambda: found.append(tree.equal(one, other)))
    assert found == [wanted]
