"""YAML: go-yaml's reading of plain scalars, its limits, and writing that reads back."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.codecs import yaml_reading
from kapi.codecs.yaml_writing import dump_yaml

_TEXT = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufeff\u2028\u2029\x85"), max_size=30
)
_TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=15,
)


def load(text: str) -> Any:
    return yaml_reading.loads(text.encode())[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("n", False), ("Off", False), ("~", None), ("", None), ("1_000", 1000), ("017", 15),
        ("0x1f", 31), ("0b11", 3), ("1e3", 1000), (".5", 0.5), ("12:30", "12:30"), ("2020-01-01", "2020-01-01"),
        ('"yes"', "yes"), ("'1'", "1"), ("!!str 1", "1"), ("08", 8), ("v1", "v1"), ("-", None),
    ],
)  # fmt: skip
def test_plain_scalars_are_yaml_1_1(text: str, value: object) -> None:
    expected = [None] if text == "-" else value
    assert load(text) == expected


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("y Y yes Yes YES true True TRUE on On ON", True),
        ("n N no No NO false False FALSE off Off OFF", False),
        ("~ null Null NULL", None),
        (".nan .NaN .NAN", "json: unsupported value: NaN"),
        (".inf .Inf .INF +.inf +.Inf +.INF", "json: unsupported value: +Inf"),
        ("-.inf -.Inf -.INF", "json: unsupported value: -Inf"),
    ],
)
def test_words_with_a_value(words: str, value: bool | str | None) -> None:
    for word in words.split():
        if isinstance(value, str):
            with pytest.raises(yaml_reading.YAMLError, match=re.escape(value)):
                load(f"a: {word}")
        else:
            assert load(f"a: {word}") == {"a": value}


@pytest.mark.parametrize("word", ["yEs", "tRUE", "oN", "nO", "fALSE", "nULL", ".iNF", ".nAN", "+.nan", "None"])
def test_other_cases_of_such_words_are_text(word: str) -> None:
    assert load(f"a: {word}") == {"a": word}


@pytest.mark.parametrize(
    "text",
    [
        "0-5",
        "0 1",
        "-0-5",
        "0+7",
        "0x-1",
        "0x 1",
        "0b0b1",
        "0x0x1f",
        "0o-7",
        "0\u0663",
        "0x1ffffffffffffffff",
        "-0x8000000000000001",
        "+0xffffffffffffffff",
        "0b" + "1" * 65,
        "0o7777777777777777777777777",
        "-0b-1",
        "._1",
        ".1_",
        ".1__0",
        ".1_e5",
        "0b",
        "0x",
    ],
)
def test_what_only_begins_like_a_number_is_text(text: str) -> None:
    assert load(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0B11", 3), ("0O17", 15), ("0X1F", 31), ("-0x1f", -31), ("+017", 15), ("0o17", 15),
        ("18446744073709551615", 2**64 - 1), ("-9223372036854775808", -(2**63)), ("0xFFFFFFFFFFFFFFFF", 2**64 - 1),
        ("-0b1" + "0" * 63, -(2**63)), ("0b-11", -3), ("0b+11", 3), ("+0x7fffffffffffffff", 2**63 - 1),
    ],
)  # fmt: skip
def test_the_forms_of_integers_are_those_of_go(text: str, value: int) -> None:
    assert load(text) == value


@pytest.mark.parametrize("text", ["1e20", "-1e20", "18446744073709551616", "-9223372036854775809", "9" * 300])
def test_numbers_beyond_64_bits_can_be_written_as_json(text: str) -> None:
    assert orjson.loads(orjson.dumps(load(text))) == float(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-9223372036854775809", -9.223372036854775808e18), ("-9223372036854775808.0", -9.223372036854775808e18),
        ("18446744073709551616", 18446744073709551616.0), ("+18446744073709551615", 18446744073709551616.0),
        ("9223372036854775808.0", 9223372036854776000), ("4611686018427387904.0", 4611686018427388000),
        ("-1.234567890123456789e18", -1234567890123456800), ("9007199254740992.0", 9007199254740992),
        ("07777777777777777777777777", 7.777777777777778e24), ("1_000_000_000_000_000_000_000", 1e21),
        (".1_0", 0.1), (".1e1_0", 1000000000),
    ],
)  # fmt: skip
def test_other_numbers_are_floats_that_went_through_json(text: str, value: float) -> None:
    """A whole float has as many digits in JSON as tell it apart, then zeros; in the range of int64 it is read as an integer."""
    for form in ("a: {}", '{{"b": 1, "a": {}}}')[: 2 if text[-2:] == ".0" else 1]:
        found = load(form.format(text))["a"]
        assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", ["1e400", "-1E+999", "9" * 400, "1_0e999"])
def test_numbers_that_no_double_holds_are_text(text: str) -> None:
    """Go's parser of numbers refuses them, and go-yaml takes what it refuses for text."""
    assert load(text) == text
    assert load(f'{{"a": {text}}}') == {"a": text}


def test_only_the_first_document_counts() -> None:
    assert load("a: 1\n---\nb: 2\n") == {"a": 1}


def test_keys_become_text_and_mappings_sorted() -> None:
    assert list(load("z: 1\nn: 2\n1: 3\n").items()) == [("1", 3), ("false", 2), ("z", 1)]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("1.1", "1.1"), ("3.14159265358979", "3.1415927"), ("16777217.5", "1.6777218e+07"), ("1234567.0", "1.234567e+06"),
        ("1e5", "100000"), ("0x1F", "31"), ("-0.0", "-0"), ("1e-50", "0"), ("1e39", ".inf"), (".inf", ".inf"),
        ("-.Inf", "-.inf"), (".NAN", ".nan"), ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775809", "-9.223372e+18"), ("yes", "true"), ("1_0", "10"),
    ],
)  # fmt: skip
def test_keys_that_are_numbers_are_written_as_upstream_does(key: str, name: str) -> None:
    """Floats as the float32 that is nearest."""
    assert load(f"{key}: x") == {name: "x"}


def test_merge_keys_are_merged() -> None:
    assert load("base: &b {a: 1, b: 2}\nx:\n  <<: *b\n  b: 3\n")["x"] == {"a": 1, "b": 3}


def test_duplicate_keys_are_reported_with_their_line() -> None:
    tree, duplicates = yaml_reading.loads(b"a: 1\nb:\n  k: 1\n  k: 2\n")
    assert tree == {"a": 1, "b": {"k": 2}}
    assert duplicates == ['line 4: key "k" already set in map']


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("[{a: ", "}]")])
def test_the_deepest_levels_that_are_read(opening: str, closing: str) -> None:
    levels = 240 // len(closing)
    load(opening * levels + "1" + closing * levels)
    with pytest.raises(yaml_reading.YAMLError, match="exceeded max depth of 240"):
        load(opening * levels + "[1]" + closing * levels)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("metadata:\n  name: k\n data: {}\n", "yaml: line 2: did not find expected key"),
        ("metadata:\n\tname: k\n", "yaml: line 2: found character that cannot start any token"),
        ('{"a": ', "yaml: line 1: did not find expected node content"),
        ("a: *x\n", "yaml: unknown anchor 'x' referenced"),
        ("? [a, {b: 1}]\n: b\n", 'yaml: invalid map key: []interface {}{"a", map[interface {}]interface {}{"b":1}}'),
        ("~: x\n", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "x"'),
        ("18446744073709551615: 1\n", "unsupported map key of type: uint64, key: 0xffffffffffffffff, value: 1"),
        ("a: !!int 1e3\n", "yaml: cannot decode !!float `1e3` as a !!int"),
        ("a: !!float 18446744073709551615\n", "yaml: cannot decode !!int `18446744073709551615` as a !!float"),
        ("a: !!bool 1\n", "yaml: cannot decode !!int `1` as a !!bool"),
        ("a: !!null 1\n", "yaml: cannot decode !!int `1` as a !!null"),
        ("a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!int ~\n", "yaml: cannot decode !!null `~` as a !!int"),
        ("a: .nan\n", "json: unsupported value: NaN"),
        ("a: \x01", "yaml: control characters are not allowed"),
        ('{"a": "\\ud83d\\ude00"}', "yaml: found invalid Unicode character escape code"),  # JSON has surrogate pairs
        ('{"a":' * 300 + "1" + "}" * 300, "yaml: exceeded max depth of 240"),
        ("[" * 242 + "]" * 242, "yaml: exceeded max depth of 240"),
        ("<<: 1\n", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: !!binary x\n", "yaml: !!binary value contains invalid base64 data"),
    ],
)
def test_malformed_yaml_is_explained_as_upstream_does(text: str, why: str) -> None:
    with pytest.raises(yaml_reading.YAMLError) as caught:
        load(text)
    assert str(caught.value).startswith(why)


def test_a_billion_laughs_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(yaml_reading.YAMLError, match="excessive aliasing"):
        load("\n".join(lines))


def test_an_alias_counts_with_the_size_of_what_it_stands_for() -> None:
    """One large text, written out so often, would be a document of megabytes: its nodes are few."""
    text = "a: &a " + "x" * 1000 + "\nb: [" + ", ".join(["*a"] * 100) + "]\n"
    assert yaml_reading.loads(text.encode(), max_bytes=110_000)[0]["b"] == ["x" * 1000] * 100
    with pytest.raises(yaml_reading.TooLarge, match="excessive aliasing"):
        yaml_reading.loads(text.encode(), max_bytes=100_000)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {k: &k " + "x" * 1000 + "}\nb: &b [*a, *a, *a, *a, *a]\nc: [*b, *b, *b, *b, *b]\n",  # in one another
        "a: &a {k: " + "x" * 1000 + "}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(30)),
        "a: &a " + "x" * 1000 + "\nb:\n" + "".join("  - *a : 1\n" for _ in range(30)),  # keys
        "a: &a " + "\u20ac" * 333 + "\nb: [" + ", ".join(["*a"] * 30) + "]\n",
    ],
)
def test_aliases_count_wherever_they_are(text: str) -> None:
    data = text.encode()
    assert yaml_reading.loads(data, max_bytes=40_000)
    with pytest.raises(yaml_reading.TooLarge):
        yaml_reading.loads(data, max_bytes=29_000)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(yaml_reading.YAMLError):
        load("[" * 100_000)


def test_a_document_of_too_many_nodes_is_refused() -> None:
    with pytest.raises(yaml_reading.YAMLError, match="more than 100000 nodes"):
        load("- a\n" * 150_000)


@given(st.dictionaries(_TEXT, _TREES))
def test_json_is_read_as_the_yaml_it_is(tree: Any) -> None:
    text = json.dumps(tree, ensure_ascii=False)
    assert load(text) == load("\n" + text) == tree
    assert list(load(text)) == sorted(tree)


def test_duplicates_in_json_are_found_by_the_yaml_reader() -> None:
    tree, duplicates = yaml_reading.loads(b'{"a":1,"a":2.0}')
    assert (tree, duplicates) == ({"a": 2}, ['line 1: key "a" already set in map'])


@given(_TREES)
def test_what_is_written_is_read_again(tree: Any) -> None:
    assert load(dump_yaml(tree).decode()) == tree


def test_the_layout_is_upstreams() -> None:
    tree = {"b": [{"x": 1}], "a": {"n": "true"}, "text": "one\ntwo\n", "empty": {}, "k10": 1, "k9": 2, "none": None}
    assert dump_yaml(tree).decode() == (
        'a:\n  "n": "true"\nb:\n- x: 1\nempty: {}\nk9: 2\nk10: 1\nnone: null\ntext: |\n  one\n  two\n'
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e18, "1000000000000000000"), (1e20, "1e+20"), (1e-5, "1e-05"), (12345678.9, "1.23456789e+07"), (0.5, "0.5"),
        (2**63 - 1, "9223372036854775807"), (2**63, "9223372036854776000"), (2**64 - 1, "1.8446744073709552e+19"),
        (-1e19, "-1e+19"), (3.0, "3"), (-7, "-7"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_go_does(number: float, text: str) -> None:
    assert dump_yaml({"a": number}).decode() == f"a: {text}\n"


@pytest.mark.parametrize(
    "expected",
    [
        ["-", "1", "2", "10", "a", "a2", "a9", "a009", "a10", "ab"], ["1-a", "10-a", "1000", "100a", "1a", "1e"],
        ["a.b", "a_b", "a1", "a1b", "a01b", "ab"], ["1.4", "1.10", "10", "100", "a"], ["0.5", "1.5", "31", "1000"],
        ["9" * 18, "9" * 18 + "1", "a"], ["18446744073709551617", "2", "9223372036854775807"],
    ],
)  # fmt: skip
def test_keys_are_ordered_by_their_numbers(expected: list[str]) -> None:
    """These are of 64 bits, and wrap around, as upstream."""
    text = dump_yaml({key: "v" for key in reversed(expected)})
    assert [found.strip("'\"") for found in re.findall(r"^([^:\n]+)", text.decode(), re.MULTILINE)] == expected


def test_keys_of_any_length_can_be_ordered() -> None:
    keys = [end * size for size in (4000, 5000) for end in "1a-é"]
    assert sorted(load(dump_yaml(dict.fromkeys(keys, 0)).decode())) == sorted(keys)


@pytest.mark.parametrize("text", ["0x1FFFFFFFFFFFFFFFFF", "-0x8000000000000001", "0b" + "1" * 70, "1e400", "._1", "="])
def test_what_is_read_as_text_has_no_quotes(text: str) -> None:
    assert dump_yaml({"a": text}).decode() == f"a: {text}\n"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("\ufeffa: b\n", {"a": "b"}),
        ("a: b\n\ufeffc: d\n", {"a": "b", "\ufeffc": "d"}),
        ('a: "x\n\ufeffy"\n\ufeffb: [c,\n\ufeffd]\n', {"a": "x \ufeffy", "\ufeffb": ["c", "\ufeffd"]}),
        ("a: x\ufeffy\nb: \ufeffz\nc: |\n \ufeffl\n", {"a": "x\ufeffy", "b": "\ufeffz", "c": "\ufeffl\n"}),
    ],
)
def test_a_byte_order_mark_is_one_at_the_very_beginning_and_else_text(text: str, tree: object) -> None:
    assert load(text) == tree


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x\ufeffy", r'"x\uFEFFy"'),
        ("\ufeff1", r'"\uFEFF\x31"'),
        ('\ufeff\n"\\ ä\u2028\u20ac\U0001f600', r'"\uFEFF\n\"\\\x20\xE4\L\u20AC\U0001F600"'),
        ("\ufeff" + "a" * 100, r'"\uFEFF' + r"\x61" * 100 + '"'),
    ],
)
def test_after_a_byte_order_mark_all_characters_are_escaped(text: str, written: str) -> None:
    """go-yaml takes each for a mark when the text begins with one."""
    assert dump_yaml({"a": text, "b": [text]}).decode() == f"a: {written}\nb:\n- {written}\n"
    assert load(dump_yaml({text: text}).decode()) == {text: text}
