"""JSONPath templates print what kubectl's print: slices, quoted text, null."""

from __future__ import annotations

import pytest

from kapi.kubectl.jsonpath import Template
from kapi.machinery.jsonpath import JSONPathError

LETTERS = {"l": list("abcde")}


def test_null_is_shown_as_json_does() -> None:
    assert Template("{.a} {.b[*]}").expand({"a": None, "b": [None, 1]}) == "null null 1"


@pytest.mark.parametrize(
    ("slice", "found"),
    [
        ("0", "a"), ("4", "e"), ("-1", "e"), ("-5", "a"), ("1:3", "b c"), ("1:", "b c d e"), (":2", "a b"), (":", "a b c d e"),
        ("0:0", ""), ("0:-1", "a b c d"), ("-2:", "d e"), ("0:5:1", "a b c d e"), ("0:5:2", "a c e"), ("::3", "a d"),
        ("0,2", "a c"), ("*", "a b c d e"),
    ],
)  # fmt: skip
def test_slices(slice: str, found: str) -> None:
    assert Template(f"{{.l[{slice}]}}").expand(LETTERS) == found


@pytest.mark.parametrize(
    ("slice", "why"),
    [
        ("0:5:0", "step must be > 0"),
        ("0:5:-1", "step must be > 0"),
        ("5", "array index out of bounds: index 5, length 5"),
        ("0:6", "array index out of bounds: index 5, length 5"),
        ("3:1", "starting index 3 is greater than ending index 1"),
        ("9223372036854775808", "array index 9223372036854775808 is not a number"),
        ("0:-", "array index - is not a number"),
        ("a", "invalid array index a"),
    ],
)
def test_slices_that_there_are_not(slice: str, why: str) -> None:
    with pytest.raises(JSONPathError) as caught:
        Template(f"{{.l[{slice}]}}").expand(LETTERS)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{""}', ""), ('{"a"}', "a"), ('{"ab"}{"abc"}', "ababc"), (r'{"a\"b"}', 'a"b'), (r'{"\""}{"x"}', '"x'), ("{'a'}", "a"),
        (r'{"\t"}', "\t"), (r'{"\u0000"}', "\0"), (r'{"\000"}', "\0"), (r'{"\377"}', "\xff"), (r'{"\ud7ff"}', "\ud7ff"),
        (r'{"\ue000"}', "\ue000"), (r'{"\U0010ffff"}', "\U0010ffff"),
    ],
)  # fmt: skip
def test_quoted_text(text: str, shown: str) -> None:
    assert Template(text).expand({}) == shown


def test_the_values_of_the_first_part() -> None:
    data = {"a": {"b": 1}, "b": 2}
    for text, values in (("{..b}", [2, 1]), ("{.a.b}", [1]), ("{.b} {.a}", [2]), ("{.c}", [])):
        assert Template(text).first(data) == values


@pytest.mark.parametrize("text", [r'{"\400"}', r'{"\ud800"}', r'{"\udfff"}', r'{"\U00110000"}', r'{"\x"}'])
def test_escapes_that_are_no_characters(text: str) -> None:
    with pytest.raises(JSONPathError, match="invalid syntax"):
        Template(text)


@pytest.mark.parametrize("text", ['{"', '{"a', '{"a\n"}', r'{"a\"}'])
def test_text_without_an_end(text: str) -> None:
    with pytest.raises(JSONPathError, match="unterminated quoted string"):
        Template(text)
