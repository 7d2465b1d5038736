"""JSON as Go's encoder writes it: numbers, markup, the order of fields."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.go_json import json_text, sorted_fields
from kapi.machinery.raw import RawObject, compacted, text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, 2.5, "x"]}, '{"a":[1,2.5,"x"],"b":1}'), (1e21, "1e+21"), (1e20, "100000000000000000000"),
        (1.5e-7, "1.5e-7"), (1e-6, "0.000001"), (-2.0, "-2"), (2**63 - 1, "9223372036854775807"), (2**63, "9223372036854776000"),
        (2**64 + 1, "18446744073709552000"), (10**22, "1e+22"), (-(2**63), "-9223372036854775808"), ("<&>\u2028\u2029é",
         '"\\u003c\\u0026\\u003e\\u2028\\u2029é"'), ("1.0 1e+5", '"1.0 1e+5"'), ([True, None, '"1e+5'], '[true,null,"\\"1e+5"]'),
        ({"1.0": 1.0}, '{"1.0":1}'),
    ],
)  # fmt: skip
def test_values(value: object, text: str) -> None:
    assert json_text(value) == text


def test_order_and_indentation() -> None:
    value = {"b": {}, "a": [1.0]}
    assert json_text(value, ordered=False) == '{"b":{},"a":[1]}'
    assert json_text(value, 2) == '{\n  "a": [\n    1\n  ],\n  "b": {}\n}'
    nested: Any = {"b": [{"d": 1, "c": {"f": 1, "e": 2}}], "a": 1}
    assert str(sorted_fields(nested)) == "{'a': 1, 'b': [{'c': {'e': 2, 'f': 1}, 'd': 1}]}"


@pytest.mark.parametrize(
    ("text", "compact"),
    [
        (b' { "a b" :\t[1 ,\r\n2 ] } ', b'{"a b":[1,2]}'), (b'"<&>"', b'"\\u003c\\u0026\\u003e"'),
        ('"\u2028\u2029\u2030 "'.encode(), '"\\u2028\\u2029\u2030 "'.encode()), (b'"a\\" b" : 1', b'"a\\" b":1'),
        (b'"no end ', b'"no end '),
    ],
)  # fmt: skip
def test_raw_text_is_compacted(text: bytes, compact: bytes) -> None:
    assert compacted(text) == compact


def test_the_text_of_a_value_is_that_of_its_client() -> None:
    assert text_of(RawObject({"a": 1}, b'{ "a": 1.0 }')) == b'{ "a": 1.0 }'
    assert text_of({"a": [1, "x"]}) == b'{"a":[1,"x"]}'
