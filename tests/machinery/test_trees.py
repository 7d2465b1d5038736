"""JSON trees: comparison and copies, strict shapes of files, shards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kapi.machinery import checkpoint
from kapi.machinery.shape import shape_errors
from kapi.machinery.sharding import Shards, hashed
from kapi.machinery.tree import copy, dig, equal


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, True), ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, False), ([], [], True),
        ({"a": 1}, {"b": 1}, False), ({"a": 1}, {"a": 1, "b": 2}, False), ([1, 2], [2, 1], False),
        ([[1], [2]], [[1], [3]], False),
        ([[0], [2]], [[1], [2]], False), ({}, [], False), ({"a": {}}, {"a": []}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("a", "a", True), ("a", "b", False), (None, {}, False), ([None], [None], True), ([1], [1.0], True), ([True], [1], True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("long", [False, True])
def test_trees_are_equal(one: Any, other: Any, same: bool, long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the comparison may take long, and pauses."""
    if long:
        monkeypatch.setattr(checkpoint, "running", SimpleNamespace(until=float("inf")))
    assert equal(one, other) is equal(other, one) is same
    assert equal(one, copy(one)) is True


def test_a_copy_shares_nothing() -> None:
    tree = {"a": [1, {"b": []}], "c": {}}
    made = copy(tree)
    made["a"][1]["b"].append(1)
    made["c"]["d"] = 1
    assert tree == {"a": [1, {"b": []}], "c": {}}


@pytest.mark.parametrize(
    ("path", "found"), [((), {"a": {"b": 1}, "c": [1]}), (("a", "b"), 1), (("a", "x"), None), (("a", "b", "c"), None),
    (("c", "0"), None)]
)  # fmt: skip
def test_a_value_at_a_path(path: tuple[str, ...], found: object) -> None:
    assert dig({"a": {"b": 1}, "c": [1]}, *path) == found


SHAPE: Any = {"name": str, "on": bool, "count": int, "list": [{"a": str}], "texts": [str], "any": {str: int}}


@pytest.mark.parametrize(
    ("tree", "wrong", "unknown"),
    [
        ({"name": "a", "on": True, "count": 1, "list": [{"a": "b"}], "texts": ["a"], "any": {"x": 1}}, [], []),
        ({"name": None, "list": None, "any": None}, [], []), (None, [], []),
        ([], ["document: must be an object"], []), ("x", ["document: must be an object"], []),
        ({"name": 1, "on": 1, "count": True}, ["name: must be a string", "on: must be a bool", "count: must be an integer"], []),
        ({"count": 1.5}, ["count: must be an integer"], []), ({"list": {}}, ["list: must be a list"], []),
        ({"list": [{"a": 1}, {"b": 1}, []]}, ["list[0].a: must be a string", "list[2]: must be an object"],
         ['unknown field "list[1].b"']),
        ({"any": {"x": "y", "z": 2}}, ["any.x: must be an integer"], []),
        ({"x": 1, "y": {}}, [], ['unknown field "x"', 'unknown field "y"']),
        ({"texts": ["a", 1]}, ["texts[1]: must be a string"], []),
    ],
)  # fmt: skip
def test_the_shape_of_a_file(tree: object, wrong: list[str], unknown: list[str]) -> None:
    assert shape_errors(tree, SHAPE) == (wrong, unknown)


def test_null_in_a_list_is_an_empty_value() -> None:
    tree: Any = {"list": [None, {"a": "b"}], "texts": [None, "a"]}
    assert shape_errors(tree, SHAPE) == ([], [])
    assert tree == {"list": [{}, {"a": "b"}], "texts": ["", "a"]}


def test_the_shard_of_a_text() -> None:
    assert (hashed(""), hashed("a"), hashed("foobar")) == (
        0xCBF29CE484222325,
        0xAF63DC4C8601EC8C,
        0x85944171F73967E8,
    )  # FNV-1a
    place = hashed("a")
    for ranges, has in (
        ([(place, place + 1)], True), ([(place + 1, place + 2)], False), ([(place - 1, place)], False),
        ([(place - 5, place), (place, place + 5)], True), ([(0, 5), (place - 1, place + 1)], True), ([(0, 5), (7, 9)], False),
        ([(place - 5, place + 5), (place - 4, place - 2)], True),
    ):  # fmt: skip
        assert Shards.of("uid", ranges).has("a") is has, ranges
    assert Shards.of("k", [(7, 9), (0, 5), (5, 6), (8, 12)]).bounds == (0, 6, 7, 12)
    assert str(Shards.of("k", [(0, 5), (10, 1 << 63)])) == (
        "shardRange(k, '0x0000000000000000', '0x0000000000000005') || shardRange(k, '0x000000000000000a', '0x8000000000000000')"
    )
