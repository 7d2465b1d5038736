"""The cells of custom resources: what paths find, and that many of them cost little more than one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import Raw

from kapi.machinery.tree import Object
from kapi.servers.apiextensions import jsonpath
from kapi.servers.apiextensions.columns import table
from tests.growth.counting import lines, stretches

MANY = 2000


def cells(obj: Object, *paths: str) -> list[Any]:
    """The cells of an object in columns with these paths."""
    columns = [{"name": f"c{number}", "type": "string", "jsonPath": path} for number, path in enumerate(paths)]
    return table(Raw(json.dumps(columns).encode())).cells({"metadata": {"name": "o"}, **obj}, 0.0)[1:]


SPEC: Object = {
    "spec": {
        "l": [{"k": "a", "v": 1}, {"k": "b", "v": 2, "l": [{"k": "c", "v": 3}]}],
        "m": {"y": {"v": 8}, "x": {"v": 7}},
        "a": {"a": {"a": {"v": 9}}},
    }
}


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (".spec.l[1].k", "b"),
        (".spec.l[-1].k", "b"),
        (".spec.l[*].v", "1"),
        (".spec.m.*.v", "7"),
        (".spec.l[0:1].v", "1"),
        (".spec.l[5,1].v", "2"),
        (".spec['m']['y'].v", "8"),
        ('.spec.l[?(@.k=="b")].v', "2"),
        ('.spec.l[?(@..k=="c")].v', None),  # two are found and only one can be compared
        ('.spec.l[?(@.l[0].k=="c")].v', "2"),
        (".spec.l[?(@.l)].v", "2"),
        (".spec.l[?(@.v>1)].k", "b"),
        (".spec..v", "9"),  # below ``a``, before ``l``
        ("..v", "9"),
        ("..k", "a"),
        ("..l..k", "a"),
        ("..a..a.v", "9"),
        ("..[?(@.k=='c')].v", "3"),
        ("..none", None),
        ("..l[1].k", "b"),
        (".[", None),
    ],
)
def test_the_first_that_a_path_finds(path: str, wanted: str | None) -> None:
    assert cells(SPEC, path) == [wanted]
    assert cells(SPEC, "..k", path, path)[1:] == [wanted, wanted]  # beside others, which share what they have walked


def work(do: Callable[[], object]) -> int:
    return sum(lines(do).values())


def test_columns_that_look_everywhere_walk_an_object_once() -> None:
    obj = {"spec": {"l": [{"k": f"k{number}"} for number in range(MANY)]}}
    one, forty = (work(lambda n=n: cells(obj, *(f"..x{number}" for number in range(n)))) for n in (1, 40))  # type: ignore[misc]
    assert forty < 2 * one


def test_what_lies_below_many_found_values_is_walked_once() -> None:
    chain: Object = {}
    inner = chain
    for number in range(100):
        inner["a"] = inner = {"b": [number] * 20}
    one, several = (work(lambda n=n: cells({"spec": chain}, "..a" * n + "..x")) for n in (1, 5))  # type: ignore[misc]
    assert several < 10 * one


LONG: Object = {"spec": {"l": [{"k": "a"}] * MANY, "s": {"l": ["x" * 100] * MANY}}}


@pytest.mark.parametrize(
    "paths",
    [
        [".spec.l[?(@.k=='b')].v"],
        [".spec.l[?(@.v)].v"],
        ["..[?(@.k=='b')].v"],
        ["..l..v"],
        [".spec.s"] * (MANY // 2),
        [".spec.l[" + ",".join("*" * 1000) + "].v"],
        [".spec['l'" + ",'l'" * 1000 + "][*].v"],
        [".spec['l'" + ",'l'" * 1000 + "][::1].v"],
    ],
)
def test_long_lists_are_walked_in_steps(paths: list[str]) -> None:
    with patch.object(jsonpath, "MAX_FOUND", 200):  # these are looked at by one expression
        found = stretches(lambda: cells(LONG, *paths))
    assert found.longest < MANY, found.where
