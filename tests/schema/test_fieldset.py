"""Sets of field paths: all operations on all small sets, by what they mean for the paths."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kapi.schema.apply import fieldset
from kapi.schema.apply.comparing import Comparison
from kapi.schema.apply.fieldset import BadSet, Path, Set

PATHS: list[Path] = [("f:a",), ("f:a", "f:b"), ("f:a", "f:c"), ("f:a", "f:b", "f:d"), ("f:e",)]
SETS = [frozenset(some) for size in range(len(PATHS) + 1) for some in itertools.combinations(PATHS, size)]
TREES = {paths: fieldset.from_paths(paths) for paths in SETS}


def paths_of(fields: Set) -> frozenset[Path]:
    found = list(fieldset.walk(fields))
    assert len(found) == len(set(found))
    return frozenset(found)


def below(path: Path, others: frozenset[Path]) -> bool:
    return any(path[: len(other)] == other for other in others)


@pytest.mark.parametrize(
    ("operation", "meaning"),
    [
        (fieldset.union, lambda one, other: one | other),
        (lambda one, other: fieldset.union_all([one, other, one]), lambda one, other: one | other),
        (fieldset.intersection, lambda one, other: one & other),
        (fieldset.difference, lambda one, other: one - other),
        (lambda one, other: fieldset.difference(one, other, True),
         lambda one, other: frozenset(path for path in one if not below(path, other))),
    ],
    ids=["union", "union_all", "intersection", "difference", "recursive difference"],
)  # fmt: skip
def test_two_sets(
    operation: Callable[[Set, Set], Set], meaning: Callable[[frozenset[Path], frozenset[Path]], frozenset[Path]]
) -> None:
    for one, other in itertools.product(SETS, SETS):
        found = operation(TREES[one], TREES[other])
        assert paths_of(found) == meaning(one, other), (one, other)
        assert found == TREES[meaning(one, other)], "nodes that are no members and lead to none"
    assert all(paths_of(tree) == paths for paths, tree in TREES.items()), "an operation has changed a set"


def test_what_is_in_a_set() -> None:
    for one in SETS:
        assert [path for path in PATHS if fieldset.has(TREES[one], path)] == [path for path in PATHS if path in one]
        assert not fieldset.has(TREES[one], ())
        assert not fieldset.has(TREES[one], ("f:a", "f:b", "f:d", "f:x"))
        for other in SETS:
            assert fieldset.contains(TREES[one], TREES[other]) is (other <= one)


@pytest.mark.parametrize("count", range(7))
def test_many_sets_are_joined(count: int) -> None:
    wanted = {f"f:{number}": {} for number in range(count)}
    assert fieldset.union_all({name: {}} for name in wanted) == wanted


def test_paths_are_walked_by_levels_and_in_order() -> None:
    texts = [
        "i:10",
        "i:2",
        'v:"b"',
        "v:true",
        "v:1",
        "v:[1]",
        "v:null",
        'k:{"b":1}',
        'k:{"a":1,"b":1}',
        'k:{"a":1}',
        "f:z",
        "f:b",
    ]
    fields = fieldset.from_paths([(text,) for text in texts] + [("f:b", "f:y"), ("f:a", "f:x"), ("f:b",)])
    assert list(fieldset.walk(fields)) == [
        ("f:b",), ("f:z",), ('k:{"a":1}',), ('k:{"a":1,"b":1}',), ('k:{"b":1}',), ("v:1",), ('v:"b"',), ("v:true",), ("v:[1]",),
        ("v:null",), ("i:2",), ("i:10",), ("f:a", "f:x"), ("f:b", "f:y"),
    ]  # fmt: skip
    assert list(fieldset.canonical(fields)) == [
        "f:a", "f:b", "f:z", 'k:{"a":1}', 'k:{"a":1,"b":1}', 'k:{"b":1}', "v:1", 'v:"b"', "v:true", "v:[1]", "v:null", "i:2",
        "i:10",
    ]  # fmt: skip
    assert list(fieldset.canonical(fields)["f:b"]) == [".", "f:y"]


@pytest.mark.parametrize("count", [999, 1000, 1001])
def test_large_sets_are_in_the_same_order(count: int) -> None:
    names = [f"f:{number:04}" for number in range(count)]
    assert list(fieldset.canonical(dict.fromkeys(reversed(names), {}))) == names


@pytest.mark.parametrize(
    ("element", "shown"),
    [
        ("f:a", ".a"), ("f:a:b", ".a:b"), ("i:3", "[3]"), ('v:"x"', '[="x"]'), ("v:1", "[=1]"), ("v:true", "[=true]"),
        ("v:null", "[=null]"), ("v:[1,null]", "[=[1,null]]"), ('v:{"a":1}', "[=a=1]"), ('k:{"b":"x","a":1}', '[a=1,b="x"]'),
        ("v:1.5", "[=1.5]"),
    ],
)  # fmt: skip
def test_elements_in_messages(element: str, shown: str) -> None:
    assert fieldset.show((element, "f:z")) == f"{shown}.z"


@pytest.mark.parametrize(
    ("stored", "fields"),
    [
        (None, {}),
        ({}, {}),
        ({".": {}}, {}),
        ({"f:a": {}, "f:b": None}, {"f:a": {}, "f:b": {}}),
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": {"f:b": {}}}, {"f:a": {"f:b": {}}}),
        ({"f:a": {".": {}, "f:b": {}}}, {"f:a": {".": {}, "f:b": {}}}),
        ({"f:a": {"x:b": {}}}, {"f:a": {}}),
        ({"x:a": {}, "f:b": {}}, {"f:b": {}}),
        ({"i:03": {}, "i:3": {"f:a": {}}}, {"i:3": {".": {}, "f:a": {}}}),
        ({'k:{"b": 1.0, "a": "x"}': {}}, {'k:{"a":"x","b":1}': {}}),
        (
            {"v:1.5": {}, "v: 2.0": {}, "v:1e15": {}, "v:999999999999999.0": {}, "v:-1e15": {}},
            {"v:1.5": {}, "v:2": {}, "v:1000000000000000.0": {}, "v:999999999999999": {}, "v:-1000000000000000.0": {}},
        ),
    ],
)
def test_what_is_stored_is_read_in_its_normal_form(stored: Any, fields: Set) -> None:
    assert fieldset.decode(stored) == fields


PARSING = "error decoding set: parsing key as path element: "


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ([], "error decoding set: expect { or n"),
        ({"f:a": 1}, "error decoding set: ReadMapCB: expect { or n"),
        ({"f:a": {"f:b": []}}, "error decoding set: ReadMapCB: expect { or n"),
        ({"f": {}}, PARSING + "key must be 2 characters long:"),
        ({"": {}}, PARSING + "key must be 2 characters long:"),
        ({"ab": {}}, PARSING + "missing colon: ab"),
        ({"i:x": {}}, PARSING + 'strconv.Atoi: parsing "x": invalid syntax'),
        ({"i:": {}}, PARSING + 'strconv.Atoi: parsing "": invalid syntax'),
        ({"k:[]": {}}, PARSING + "expect { or n"),
    ],
)
def test_what_cannot_be_read(stored: Any, text: str) -> None:
    with pytest.raises(BadSet) as caught:
        fieldset.decode(stored)
    assert str(caught.value) == text


def test_fields_that_are_reset_go_from_each_part_of_a_comparison_with_all_below() -> None:
    one, other = ("f:a", "f:b"), ("f:e",)
    fields = fieldset.from_paths([one, other])
    whole = Comparison(fields, {**fields}, {**fields})
    assert whole.without({}) is whole
    left = whole.without(fieldset.from_paths([("f:a",)]))
    assert [list(fieldset.walk(part)) for part in (left.removed, left.modified, left.added)] == [[other]] * 3
    assert list(fieldset.walk(Comparison({}, {"f:a": {}}, {"f:b": {}}).changed)) == [("f:a",), ("f:b",)]
