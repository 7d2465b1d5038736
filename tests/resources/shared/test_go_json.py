"""Go's complaints about JSON."""

from __future__ import annotations

import pytest

from kapi.resources.shared.go_json import object_error, value_error


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", ""),
        (' {"a": [1, {"b": null}, "x"], "c": {}} ', ""),
        ("null", ""),
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ('{"a"', "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ('{"a":[1,]}', "invalid character ']' looking for beginning of value"),
        ('{"a":[1 2]}', "invalid character '2' after array element"),
        ("{} {}", "invalid character '{' after top-level value"),
        ("nul", "unexpected end of JSON input"),
        ("tru1", "invalid character '1' in literal true (expecting 'e')"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, ""),
        ('{"a":' * 10_001 + "1" + "}" * 10_001, "invalid character '{' exceeded max depth"),
        ('{"a":' + "[" * 10_000 + "]" * 10_000 + "}", "invalid character '[' exceeded max depth"),
        ('{"a": -x}', "invalid character 'x' in numeric literal"),
        (r'{"\"\\\/\b\f\n\r\t": "\u00e9\uABCD"}', ""),
        (r'{"a": "\x"}', "invalid character 'x' in string escape code"),
        (r'{"a": "\u00g0"}', "invalid character 'g' in \\u hexadecimal character escape"),
        (r'{"a": "\u123"}', "invalid character '\"' in \\u hexadecimal character escape"),
        ('{"a": "\\', "unexpected end of JSON input"),
        ('{"a": "\t"}', r"invalid character '\t' in string literal"),
        ('{"a": [0, -0, 10, 0.5, 1e9, 1E+9, -1.25e-9]}', ""),
        ('{"a": 01}', "invalid character '1' after object key:value pair"),
        ('{"a": 1.x}', "invalid character 'x' after decimal point in numeric literal"),
        ('{"a": 1ex}', "invalid character 'x' in exponent of numeric literal"),
        ('{"a": 1e+}', "invalid character '}' in exponent of numeric literal"),
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ('"a"', "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ("1", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
    ],
)
def test_what_is_said_of_text_that_should_be_an_object(text: str, complaint: str) -> None:
    assert object_error(text.encode()) == complaint


def test_other_types_can_be_wanted() -> None:
    assert value_error(b"[]", "[", "[]T") == ""
    assert value_error(b"{}", "[", "[]T") == "json: cannot unmarshal object into Go value of type []T"


def test_depth_is_bounded_by_a_complaint() -> None:
    assert object_error(b"[" * 9_000) == "unexpected end of JSON input"
    assert object_error(b'{"a":' + b"[" * 9_000 + b"]" * 9_000 + b"}") == ""
    assert object_error(b"[" * 100_000) == "invalid character '[' exceeded max depth"
