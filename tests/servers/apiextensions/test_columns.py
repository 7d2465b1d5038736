"""The cells of custom resources: what paths find, and that many of them cost little more than one."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import Raw

from kapi.machinery.jsonpath import Template
from kapi.machinery.tree import Object
from kapi.servers.apiextensions import rows
from kapi.servers.apiextensions.rows import table
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
        "n": "hi",
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
        ("..none", None),
        ("..l[0].k", "a"),
        ("..['a.a'].a.v", "9"),
        (".spec.l}{.spec.m", '[{"k":"a","v":1},{"k":"b","l":[{"k":"c","v":3}],"v":2}]'),
        (".spec.l[?(@.v==2)].k", "b"),
        (".spec.l[0:2:2].k", "a"),
        (".spec.n.*", "104"),  # the bytes of a text
        # what does not fit the object is an error, and there is no value
        ("..[?(@.k=='c')].v", None),
        ("..l[1].k", None),
        (".spec.l[?(@.v=='2')].k", None),
        (".spec.l[?(@.v==2.0)].k", None),
        (".spec.m[0]", None),
        (".spec.l[5,1].v", None),
        (".spec.l[1:9].v", None),
        (".spec.l[1:0].v", None),
        (".spec.l}{.spec.m[?(@.v)]", None),
        (".spec.l[?(@.k=!'a')].v", None),
        (".a b", None),
        (".spec.l}{range .l[*]}{.k}{end", '[{"k":"a","v":1},{"k":"b","l":[{"k":"c","v":3}],"v":2}]'),
        (".spec.n" + "}{range .spec" * MANY + "}{end" * MANY, None),  # too deep
    ],
)
def test_the_first_that_a_path_finds(path: str, wanted: str | None) -> None:
    assert cells(SPEC, path) == [wanted]
    assert cells(SPEC, "..k", path, path)[1:] == [wanted, wanted]  # beside others, which share what they have walked


@pytest.mark.parametrize("path", [".[", ".a[1", ".a[b]", ".a[?(@.b]", ".a....b", '.a "b', ".a{", ".a,b", ".a[::1 ]",
    f".a {'9' * 400}", f".a {'9' * 400}.5", r".a '\UFFFFFFFF'", r".a '\U00110000'", r".a '\uD800'", r".a '\777'",
])  # fmt: skip
def test_columns_from_one_with_a_malformed_path_are_left_out(path: str) -> None:
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": of} for n, of in enumerate(["..k", path, "..k"])]
    made = table(Raw(json.dumps(columns).encode()))
    assert [column.name for column in made.columns] == ["Name", "c0"]
    assert made.cells({"metadata": {"name": "o"}, **SPEC}, 0.0) == ["o", "a"]


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        ("string", None, "<no value>"),
        ("string", {"b": [1, 2.0, 1e21, "<&>"], "a": None}, '{"a":null,"b":[1,2,1e+21,"\\u003c\\u0026\\u003e"]}'),
        ("string", 1234567.0, "1.234567e+06"),
        ("string", False, "false"),
        ("integer", None, None),
        ("integer", 2.9, 2),
        ("integer", 1e300, -(1 << 63)),
        ("integer", True, None),
        ("integer", "2", None),
        ("number", 2, 2.0),
        ("number", "2", None),
        ("boolean", 1, None),
        ("date", "1970-01-01T00:00:00Z", "10s"),
        ("date", "1970-01-01T01:00:00+01:00", "10s"),
        ("date", "1970-01-01T00:00:00", "<invalid>"),
        ("date", "1970-01-01", "<invalid>"),
        ("date", "", "<unknown>"),
        ("date", "null", "<unknown>"),
        ("date", "0001-01-01T00:00:00Z", "<unknown>"),
        ("date", 5, None),
    ],
)
def test_a_value_in_a_column_of_a_type(type_: str, value: object, wanted: object) -> None:
    columns = Raw(json.dumps([{"name": "c", "type": type_, "jsonPath": ".v"}]).encode())
    assert table(columns).cells({"metadata": {"name": "o"}, "v": value}, 10.0) == ["o", wanted]


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


DEEP: Object = {}
for _ in range(100):
    DEEP = {"a": DEEP}
LONG: Object = {"spec": {"l": [{"k": "a"}] * MANY, "s": {"l": ["x"] * MANY}, "d": [DEEP]}}


@pytest.mark.parametrize(
    "paths",
    [
        [".spec.l[?(@.k=='b')].v"],
        [".spec.l[?(@.v)].v"],
        ["..l[?(@.k=='b')].v"],
        ["..l..v"],
        [".spec.s"] * (MANY // 10),
        [".spec.l[" + ",".join("*" * 1000) + "].v"],
        [".spec['l'" + ",'l'" * 1000 + "][*].v"],
        [".spec['l'" + ",'l'" * 1000 + "][::1].v"],
        [".spec.d[" + ",".join("*" * 200) + "]" + ".a" * 100],
    ],
)
def test_long_lists_are_walked_in_steps(paths: list[str]) -> None:
    with patch.object(rows, "MAX_FOUND", 200):  # these are looked at by one expression
        found = stretches(lambda: cells(LONG, *paths))
    assert found.longest < MANY, found.where


def test_ranges_keep_only_the_first_part() -> None:
    template, obj = Template("{.n}{range .l[*]}{.}{end}", limit=rows.MAX_FOUND), {"n": 1, "l": [1] * 50 * MANY}
    tracemalloc.start()
    try:
        assert template.first(obj) == [1]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
