"""JSON: Go's words for what is malformed, duplicates, limits."""

from __future__ import annotations

import json
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.codecs import json_reading
from tests.growth.counting import stretches

_TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("number", "exact"),
    [(-(1 << 63), True), (-(1 << 63) - 1, False), (-(1 << 62) - 1, True), ((1 << 64) - 1, True), (1 << 64, False)],
)
def test_an_integer_is_a_number_where_go_has_a_type_for_it(number: int, exact: bool) -> None:
    """Else it is kept as it is written, for the error of the field."""
    found = json_reading.loads_exactly(f"[{number}]".encode())
    assert isinstance(found, list)
    assert isinstance(found[0], int) is exact
    assert str(found[0]) == str(number) or not exact


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ('{"a":', "unexpected end of JSON input"),
        ('{"a":"b', "unexpected end of JSON input"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ('["NaN\\"",-Infinity', "invalid character 'I' in numeric literal"),
        ('["Infinity", Infinity, "\\', "invalid character 'I' looking for beginning of value"),
        ('[{"a]":[1,"{"]},}', "invalid character '}' looking for beginning of value"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),  # Go reads a blank after the end
        ("[tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("-", "invalid character ' ' in numeric literal"),
        ("[-a]", "invalid character 'a' in numeric literal"),
        ("[1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ('"abc', "unexpected end of JSON input"),
        ("\ufeff{}", "invalid character 'ï' looking for beginning of value"),  # Go sees the first byte alone
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("\x00", "invalid character '\\x00' looking for beginning of value"),
        ("[" * 10_001, "invalid character '[' exceeded max depth"),
        ('{"a":' * 10_001, "invalid character '{' exceeded max depth"),
        ("[" * 10_001 + "]" * 10_001, "invalid character '[' exceeded max depth"),
        ("[" * 10_001 + "x", "invalid character '[' exceeded max depth"),
        ("[x" + "[" * 10_001, "invalid character 'x' looking for beginning of value"),
        ("nulx", "invalid character 'x' in literal null (expecting 'l')"),
        ("apiVersion: v1", "invalid character 'a' looking for beginning of value"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"a\nb"', "invalid character '\\n' in string literal"),
    ],
)
def test_malformed_json_is_explained_as_go_does(text: str, why: str) -> None:
    with pytest.raises(json_reading.JSONError) as caught:
        json_reading.loads(text.encode())
    assert str(caught.value) == why


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(json_reading.JSONError, match="exceeded max depth"):
        json_reading.loads(b"[" * 200_000 + b"]" * 200_000)


@pytest.mark.parametrize("opening", ['{"a":', '["a",', '["[",', '["]",'])
def test_the_bracket_beyond_the_deepest_level_is_shown(opening: str) -> None:
    for last in "{[":
        with pytest.raises(json_reading.JSONError) as caught:
            json_reading.loads(opening.encode() * 10_000 + last.encode())
        assert str(caught.value) == f"invalid character '{last}' exceeded max depth"


def test_invalid_utf8_and_half_surrogates_are_replaced() -> None:
    assert json_reading.loads(b'{"a":"\xff"}') == {"a": "\ufffd"}
    assert json_reading.loads(b'{"a":"\\ud800"}') == {"a": "\ufffd"}


@given(st.binary(max_size=60), st.integers(1, 5))
def test_bytes_that_are_no_text_are_replaced_wherever_a_piece_ends(data: bytes, size: int) -> None:
    with patch.object(json_reading, "_BYTES_PER_CHECKPOINT", size):
        assert json_reading.text_of(data) == data.decode("utf-8", "kapi.replace_bytes")


def test_many_of_them_do_not_hold_the_thread() -> None:
    found = stretches(lambda: json_reading.loads(b'"' + b"\xff" * 50_000 + b'"'))
    assert found.longest < 4 * json_reading._BYTES_PER_CHECKPOINT, found.where


@given(_TREES, st.sampled_from([None, 2]))
def test_a_tree_without_duplicates_is_never_said_to_have_them(tree: object, indent: int | None) -> None:
    text = json.dumps(tree, indent=indent).encode()
    assert json_reading.loads(text) == tree
    assert list(json_reading.duplicates(json_reading.loads_exactly(text))) == []


@given(st.dictionaries(st.text(max_size=4), _TREES, min_size=1, max_size=4), st.sampled_from([":", " : ", "\t:\n"]))
def test_a_duplicate_is_never_overlooked(tree: dict[str, object], colon: str) -> None:
    pairs = [(key, value) for key, value in tree.items()] * 2
    text = "{" + ",".join(json.dumps(key) + colon + json.dumps(value) for key, value in pairs) + "}"
    parsed = json_reading.loads(text.encode())
    assert json_reading.may_have_duplicates(text.encode(), json_reading.count_keys(parsed))
    found = json_reading.loads_exactly(text.encode())
    assert isinstance(found, json_reading.Duplicated)
    assert set(tree) <= set(json_reading.duplicates(found))


@pytest.mark.parametrize(
    ("data", "tree"),
    [
        (b'{"a":"\\ud800\\ud800"}', {"a": "\ufffd\ufffd"}),
        (b'{"a":"\\ude00\\ud83d\\ude00"}', {"a": "\ufffd\U0001f600"}),
        (b'{"\\udfff":1}', {"\ufffd": 1}),
        (b'{"a":"\xe2\x82"}', {"a": "\ufffd\ufffd"}),  # one for each byte
        (b'{"a":"\\ud800","n":123456789012345678901}', {"a": "\ufffd", "n": 123456789012345678901.0}),
    ],
)
def test_what_go_repairs_is_repaired_so(data: bytes, tree: object) -> None:
    assert json_reading.loads(data) == tree
    assert json_reading.loads_exactly(data) == tree


@pytest.mark.parametrize("number", ["1e400", "-1E+999", "9" * 400, "9" * 5000])
def test_a_number_beyond_a_float64_is_named(number: str) -> None:
    with pytest.raises(json_reading.NumberTooLarge) as caught:
        json_reading.loads(b'{"a":[%s]}' % number.encode())
    assert str(caught.value) == f"json: cannot unmarshal number {number} into Go value of type float64"


def test_an_error_names_the_byte_of_invalid_utf_8() -> None:
    with pytest.raises(json_reading.JSONError, match=r"invalid character '\\u0089' after top-level value"):
        json_reading.loads(b"6\x89\xde")
