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
        ('["a\tb"]', "invalid character '\\t' in string literal"),
        ('"\\', "invalid character ' ' in string escape code"), ('"\\\\\\', "invalid character ' ' in string escape code"),
        ('"\\\\', "unexpected end of JSON input"), ('"\\ud812', "unexpected end of JSON input"),
        *(
            (f'"\\u{text}', f"invalid character '{shown}' in \\u hexadecimal character escape")
            for text, shown in (("", " "), ("123", " "), ('"', '"'), ("x23", "x"), ("12g4", "g"), ("12:", ":"), ("ABCG", "G"))
        ),
        *(
            (text, f"invalid character '1' after {where}")
            for where, texts in (
                ("top-level value", ("01", "-01")), ("array element", ("[01]", '[{"a":2}1]', '["a{"1]')),
                ("object key:value pair", ('{"a":01}', '{"a":[2]1}')),
            )
            for text in texts
        ),
        *(
            (text, f"invalid character 'x' {where}")
            for where, texts in (
                ("after decimal point in numeric literal", ("1.x", "-0.x")), ("after array element", ("[1.5x]", "[1 x]")),
                ("in exponent of numeric literal", ("1ex", "[1e+x]", "1.5E-x")), ("after top-level value", ("1x", "1e5x")),
                ("in numeric literal", ("-x",)),
            )
            for text in texts
        ),
        *(
            (text, f"invalid character '{text.strip('[ ')[0]}' looking for beginning of value")
            for text in ("+1", ".5", "]", "[,1]", "[ }", "Infinity")
        ),
        ("1.e5", "invalid character 'e' after decimal point in numeric literal"),
        ("0.e", "invalid character 'e' after decimal point in numeric literal"),
        ("1.5.5", "invalid character '.' after top-level value"),
        ("1e+", "invalid character ' ' in exponent of numeric literal"),
        ('{"a":}', "invalid character '}' looking for beginning of value"),
        ("{,}", "invalid character ',' looking for beginning of object key string"),
        ('{"a"}', "invalid character '}' after object key"),
        ('{"a":1]', "invalid character ']' after object key:value pair"),
        ("[1}", "invalid character '}' after array element"),
        ("[1 , \n]", "invalid character ']' looking for beginning of value"),
        ('{"a":1 ,\t}', "invalid character '}' looking for beginning of object key string"),
        *((text, "unexpected end of JSON input") for text in ("[1", "[1,", '{"a":1,', '{"a"')),
        ("falsy", "invalid character 'y' in literal false (expecting 'e')"),
        ("tru e", "invalid character ' ' in literal true (expecting 'e')"),
        ("-Infinity", "invalid character 'I' in numeric literal"),
    ],
)  # fmt: skip
def test_malformed_json_is_explained_as_go_does(text: str, why: str) -> None:
    with pytest.raises(json_reading.JSONError) as caught:
        json_reading.loads(text.encode())
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ('{"a":1 , }', "object", "invalid character '}' looking for beginning of object key string"),
        ('{"a":[1,\n]}', "array", "invalid character ']' looking for beginning of value"),
    ],
)
def test_a_comma_before_a_bracket_is_explained_alike_under_each_python(text: str, kind: str, why: str) -> None:
    error = json.JSONDecodeError(f"Illegal trailing comma before end of {kind}", text, text.index(","))
    with patch.object(json, "loads", side_effect=error), pytest.raises(json_reading.JSONError) as caught:
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
