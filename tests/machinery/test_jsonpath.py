"""JSONPath templates find what client-go's find, with its texts of errors."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.jsonpath import MAX_INT, Below, JSONPathError, Template, read_fields

DATA: dict[str, Any] = {
    "l": list("abcde"),
    "o": {"y": {"v": 8}, "x": {"v": 7}},
    "p": [{"n": "a", "v": 1}, {"n": "b", "v": 2, "w": 1.5}, {"n": "c", "v": 3, "b": True}],
    "a.b": 4, "s": "hi", "e": [], "z": None, "i": 5,
}  # fmt: skip


def error(text: str, *, allow_missing: bool = True) -> str:
    """Why it finds nothing in ``DATA``."""
    with pytest.raises(JSONPathError) as caught:
        Template(text, allow_missing=allow_missing).find(DATA)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []), ("x", [["x"]]), ("a{.i}b{.s}c", [["a"], [5], ["b"], ["hi"], ["c"]]), ("{.o.x.v}{'-'}{.i}", [[7], ["-"], [5]]),
        ("{}", [[DATA]]), ("{.z}", [[None]]), ("{.none.more}", [[]]), ("{.l.a}", [[]]), ("{.p[*].w}", [[1.5]]),
        (r"{.a\.b}", [[4]]), ("{@.i}", [[5]]), ("{$.i}", [[5]]), ("{ .i }", [[5]]), ("{.i .s}", [[]]), (r"{.\i}", [[5]]),
        ("{.o.*.v}", [[7, 8]]), ("{.s.*}", [[104, 105]]), ("{.i.*}", [[]]),
        ("{..v}", [[7, 8, 1, 2, 3]]), ("{.o..}", [[DATA["o"], {"v": 7}, {"v": 8}]]), ("{.e..}", [[]]), ("{.s..}", [["hi"]]),
        ("{.o['x','y']}", [[{"v": 7}, {"v": 8}]]), ("{['i', 's']}", [[5, "hi"]]), ("{.o['x'].v}", [[7]]), ("{.z[0]}", [[]]),
        ("{1}", [[1]]), ("{-1}", [[-1]]), ("{+2}", [[2]]), ("{1.5}", [[1.5]]), ("{2.}", [[2.0]]), ("{true}", [[True]]),
        ("{false}", [[False]]), ("{.p[*].v true}", [[True] * 3]),
    ],
)  # fmt: skip
def test_what_a_template_finds(text: str, parts: list[list[object]]) -> None:
    found = Template(text).find(DATA)
    assert found == parts
    assert [list(map(type, part)) for part in found] == [list(map(type, part)) for part in parts]
    assert Template(text).first(DATA) == (parts[0] if parts else [])


@pytest.mark.parametrize(
    ("slice", "found"),
    [
        ("0", "a"), ("4", "e"), ("-1", "e"), ("-5", "a"), ("1:3", "bc"), ("1:", "bcde"), (":2", "ab"), (":", "abcde"),
        ("0:0", ""), ("0:-1", "abcd"), ("-2:", "de"), ("0:5:1", "abcde"), ("0:5:2", "ace"), ("::3", "ad"), ("0,2", "ac"),
        ("0,1,4", "abe"), ("*", "abcde"), (":0", ""), ("-2:-1", "d"), ("-5:1", "a"),
    ],
)  # fmt: skip
def test_slices(slice: str, found: str) -> None:
    assert Template(f"{{.l[{slice}]}}").find(DATA) == [list(found)]


@pytest.mark.parametrize(
    ("slice", "why"),
    [
        ("0:5:0", "step must be > 0"), ("0:5:-1", "step must be > 0"), ("3:1", "starting index 3 is greater than ending index 1"),
        ("5", "array index out of bounds: index 5, length 5"), ("0:6", "array index out of bounds: index 5, length 5"),
        ("-6", "array index out of bounds: index -1, length 5"), ("0:-6", "array index out of bounds: index -2, length 5"),
        (f"{MAX_INT}", f"array index out of bounds: index {MAX_INT}, length 5"),
        (f"{MAX_INT + 1}", f"array index {MAX_INT + 1} is not a number"),
        (f"{-MAX_INT - 1}", f"array index out of bounds: index {4 - MAX_INT}, length 5"),
        (f"{-MAX_INT - 2}", f"array index {-MAX_INT - 2} is not a number"),
        ("0:-", "array index - is not a number"), ("a", "invalid array index a"),
    ],
)  # fmt: skip
def test_slices_that_there_are_not(slice: str, why: str) -> None:
    assert error(f"{{.l[{slice}]}}") == why


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("@.v==2", "b"), ("@.v!=2", "ac"), ("@.v<2", "a"), ("@.v<=2", "ab"), ("@.v>2", "c"), ("@.v>=2", "bc"), ("2<@.v", "c"),
        ('@.n=="b"', "b"), ("@.n!='b'", "ac"), ("@.n<'b'", "a"), ("@.n<='b'", "ab"), ("@.n>'b'", "c"), ("@.n>='b'", "bc"),
        ("@.w==1.5", "b"), ("@.w>=1.5", "b"), ("@.b==true", "c"), ("@.b!=false", "c"), ("@.b", "c"), ("@.none", ""),
        ("@.none==1", ""), ("@..v==1", "a"), ("@.v==@.v", "abc"), (".v==2", "b"), ("@.n==')'", ""), ("@.n[0]", ""),
        ("@.n==\"a')b\"", ""), ("@.n=='a\")b'", ""), (r'@.n=="a\")b"', ""), (r"@.n=='a\')b'", ""), ("@.n!='(' ", "abc"),
    ],
)  # fmt: skip
def test_filters(condition: str, found: str) -> None:
    assert Template(f"{{.p[?({condition})].n}}").find(DATA) == [list(found)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{.i", "unclosed action"), ("{.i\n}", "unclosed action"), ("{.i\r}", "unclosed action"), ("{.i}{", "unclosed action"),
        ("{....v}", "invalid multiple recursive descent"), ("{nope}", "unrecognized identifier nope"),
        ("{_a}", "unrecognized identifier _a"), ("{1e5}", "unrecognized identifier e5"), ("{1.i}", "unrecognized identifier i"),
        ("{#}", "unrecognized character in action: U+0023 '#'"), ("{\x01}", "unrecognized character in action: U+0001"),
        ("{-}", "cannot parse number -"), ("{1..2}", "cannot parse number 1..2"),
        ("{.l[0", "unterminated array"), ("{.l[0\n]}", "unterminated array"),
        ("{.i[0]}", "int64 is not array or slice"), ("{.s[0]}", "string is not array or slice"),
        ("{..[0]}", "map[string]interface {} is not array or slice"),
        ("{.o[?(@.v)]}", "map[x:map[v:7] y:map[v:8]] is not array or slice and cannot be filtered"),
        ("{.p[?(@.v==2)}", "unclosed array expect ]"), ("{.p[?(@.v==2", "unterminated filter"),
        ("{.p[?(@.n=='a\n')]}", "unterminated filter"), ("{.p[?(@.n=='a)]}", "unterminated filter"),
        ("{.p[?(@.v=!2)]}", "unrecognized filter operator =!"), ("{.p[?(@.n=!'a')]}", "unrecognized filter operator =!"),
        ("{.p[?(@.w>1)]}", "incompatible types for comparison"), ("{.p[?(@.v=='2')]}", "incompatible types for comparison"),
        ("{.p[?(@.b<true)]}", "invalid type for comparison"), ("{.p[?(1==@.*)]}", "can only compare one element at a time"),
        ("{.p[?(@.*==1)]}", "can only compare one element at a time"),
    ],
)  # fmt: skip
def test_templates_that_are_errors(text: str, why: str) -> None:
    assert error(text) == why


@pytest.mark.parametrize(
    "text", ["{.none}", "{.o.none}", "{.none.more}", "{.l.none}", "{.p[?(@.none==1)]}", "{.e[*]}{.none}"]
)
def test_a_missing_field_may_be_an_error(text: str) -> None:
    assert error(text, allow_missing=False) == "none is not found"
    assert Template(text).find(DATA)[-1] == []


@pytest.mark.parametrize("text", ["{.e[*].none}", "{.p[*].w}", "{.p[?(@.none)]}"])
def test_no_field_is_missing_where_nothing_or_something_has_it(text: str) -> None:
    assert Template(text, allow_missing=False).find(DATA) == Template(text).find(DATA)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{range .p[*]}{.n}-{end}z", [["a"], ["-"], ["b"], ["-"], ["c"], ["-"], ["z"]]),
        ("{range .p[*]}{.n}", [["a"], ["b"], ["c"], []]),
        ("{range .e[*]}{.n}{end}z", [["z"]]),
        ("{range .e[*]}{range .x}{.n}{end}{.q}{end}z", [["z"]]),
        ("{range .e[*]}{.i}", [[5]]),
        ("{range .p[0:2]}{range .none[*]}x{end}{.n}{end}{.i}", [["a"], ["b"], [5]]),
        ("{range .p[0:2]}{range .n}{range .none}{end}x{end}{.v}{end}", [["x"], [1], ["x"], [2]]),
    ],
)  # fmt: skip
def test_ranges(text: str, parts: list[list[object]]) -> None:
    assert Template(text).find(DATA) == parts
    assert Template(text).first(DATA) == parts[0]


@pytest.mark.parametrize("text", ["{end}", "{.i}{end}", "{range .p[*]}{end}{end}"])
def test_an_end_without_its_range(text: str) -> None:
    assert error(text) == "not in range, nothing to end"


@pytest.mark.parametrize("over", ["@", ".none"])
def test_ranges_in_each_other_are_bounded(over: str) -> None:
    assert Template(f"{{range {over}}}" * 100 + "x" + "{end}" * 100).find(DATA) == [["x"]] * (over == "@")
    assert error(f"{{range {over}}}" * 101 + "{end}" * 101) == "more than 100 ranges in each other"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{""}', ""), ('{"a"}', "a"), (r'{"a\"b"}', 'a"b'), ("{'a'}", "a"), (r'{"\t\a\b\f\n\r\v\\ "}', "\t\a\b\f\n\r\v\\ "),
        (r'{"\u0000"}', "\0"), (r'{"\000"}', "\0"), (r'{"\377"}', "\xff"), (r'{"\ud7ff"}', "\ud7ff"), (r'{"\ue000"}', "\ue000"),
        (r'{"\U0010ffff"}', "\U0010ffff"), (r'{"\x41"}', "A"), (r"{'\''}", "'"),
    ],
)  # fmt: skip
def test_quoted_text(text: str, shown: str) -> None:
    assert Template(text).find({}) == [[shown]]


def test_texts_after_each_other() -> None:
    assert Template(r'{"ab"}{"abc"}{"\""}{"x"}').find({}) == [["ab"], ["abc"], ['"'], ["x"]]


@pytest.mark.parametrize(
    "quoted", [r'"\400"', r'"\ud800"', r'"\udfff"', r'"\U00110000"', r'"\x"', r'"\q"', r'"\'"', r"'\"'"]
)
def test_escapes_that_are_no_characters(quoted: str) -> None:
    assert error(f"{{{quoted}}}") == f"unquote string {quoted} error invalid syntax"


@pytest.mark.parametrize("text", ['{"', '{"a', '{"a\n"}', r'{"a\"}'])
def test_text_without_an_end(text: str) -> None:
    assert error(text) == "unterminated quoted string"


@pytest.mark.parametrize(
    ("text", "limit", "found"),
    [
        ("{.l[*]}", 2, ["a", "b"]), ("{.l[0,1,2]}", 2, ["a", "b"]), ("{.o.*}", 1, [{"v": 7}]), ("{..v}", 100, [7, 8, 1, 2, 3]),
        ("{.p..}", 3, [DATA["p"], DATA["p"][0], "a"]),
    ],
)  # fmt: skip
def test_a_step_keeps_no_more_values_than_the_limit(text: str, limit: int, found: list[object]) -> None:
    template = Template(text, limit=limit)
    assert template.first(DATA) == template.first(DATA, Below(DATA)) == found


def test_values_that_are_found_on_several_ways_are_walked_once_where_there_is_a_limit() -> None:
    obj = {"a": {"a": {"a": {"v": 1}}}}
    assert Template("{..a..v}").find(obj) == [[1, 1, 1]]
    assert Template("{..a..v}", limit=100).first(obj) == [1]


@pytest.mark.parametrize(
    "text", ["{..v}", "{..}", "{..o..v}", "{..o.x}", "{..['i']}", "{..none}", "{.o..v}", "{.i}{..v}"]
)
def test_what_is_below_an_object_is_the_same_for_all_templates(text: str) -> None:
    below = Below(DATA)
    for _ in range(2):
        assert Template(text, limit=100).first(DATA, below) == Template(text, limit=100).first(DATA)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("{.a.b}", ["a", "b"]), ("{.a[0].b}", ["a", None, "b"]), ("{.a['b'].c}", ["a", "b", "c"]), ("{..a}", [None, "a"]),
        ("{.a['b','c'].d}", ["a", None, "d"]), ("{.*.a}", [None, "a"]), (r"{.a\.b.c}", ["a.b", "c"]), ("{}", []),
    ],
)  # fmt: skip
def test_the_fields_of_a_path(path: str, fields: list[str | None]) -> None:
    assert read_fields(path) == fields
