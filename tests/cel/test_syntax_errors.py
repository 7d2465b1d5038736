"""Every syntax error of an expression, where ANTLR finds it and in its words (cel-go's parser)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.cel import CompileErrors, Environment
from kapi.cel import types as t
from tests.examples import examples

ENV = Environment({"a": t.DYN, "b": t.DYN})
BEGIN = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
UNKNOWN = "token recognition error at: "


def errors(source: str) -> list[str]:
    """Column and text of each error, without the lines that show the place."""
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(source)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("ERROR: <input>:")]
    return [line.removeprefix("ERROR: <input>:1:").replace("Syntax error: ", "") for line in lines]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        # goes on where the open rules can
        ("(a || ) != (b || )", [f"7: mismatched input ')' expecting {BEGIN}", f"18: mismatched input ')' expecting {BEGIN}"]),
        ("[a, ] == [b c, }", ["13: extraneous input 'c' expecting {']', ','}", "16: mismatched input '}' expecting ']'"]),
        ("a ? * b", [f"5: extraneous input '*' expecting {BEGIN}", "8: mismatched input '<EOF>' expecting ':'"]),
        ("a b b", ["3: mismatched input 'b' expecting <EOF>"]),
        ("a +* b )", [f"4: extraneous input '*' expecting {BEGIN}", "8: extraneous input ')' expecting <EOF>"]),
        ("{a b}", ["4: missing ':' at 'b'"]),
        # what no alternative begins with
        ("a.", ["3: no viable alternative at input '.'"]),
        ("a. 5", ["4: no viable alternative at input '. 5'"]),
        ("a.null", ["3: mismatched input 'null' expecting IDENTIFIER"]),
        ("!-a", ["3: no viable alternative at input '-a'"]),
        # nothing is told of what follows from an error
        ("f(a, , b)", [f"6: extraneous input ',' expecting {BEGIN}"]),
        # characters that are no token are dropped with the one that does not fit
        ("*@a | b", [f"1: extraneous input '*' expecting {BEGIN}", f"2: {UNKNOWN}'@'", f"5: {UNKNOWN}'| '",
                     "7: extraneous input 'b' expecting <EOF>"]),
        ("a == 'x\\q' + b", [f"6: {UNKNOWN}''x\\q'", f"10: {UNKNOWN}'' + b'", f"15: mismatched input '<EOF>' expecting {BEGIN}"]),
        ("'\\x4G'", [f"1: {UNKNOWN}''\\x4G'", f"6: {UNKNOWN}'''", f"7: mismatched input '<EOF>' expecting {BEGIN}"]),
        ("'\\udead' == ''", ["1: invalid unicode code point"]),
        ("a && `b", [f"6: {UNKNOWN}'`b'", f"8: mismatched input '<EOF>' expecting {BEGIN}"]),
        ("a.\N{GRINNING FACE}", [f"3: {UNKNOWN}'\N{GRINNING FACE}'", "4: no viable alternative at input '.'"]),
        ("''''", ["3: extraneous input '''' expecting <EOF>"]),
        # a prefix that is none is a name
        ("rb'a'", ["3: extraneous input ''a'' expecting <EOF>"]),
    ],
)  # fmt: skip
def test_all_errors_are_told(source: str, found: list[str]) -> None:
    assert errors(source) == found


def test_recovery_ends_after_thirty_attempts() -> None:
    found = errors("[" + "(a ,) + " * 40 + "]")
    assert found[-1].endswith("error recovery attempt limit exceeded: 30")


def test_one_error_does_not_skip_more_than_256_words() -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile("a " + "b " * 300)
    assert str(caught.value).startswith("ERROR: <input>:-1:0: error recovery token lookahead limit exceeded: 256\n")


@pytest.mark.parametrize("source", ["a " + "@" * 300, "!)" * 300, "@!)" * 70])
def test_of_many_errors_a_hundred_are_told(source: str) -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(source)
    lines = str(caught.value).splitlines()
    assert sum(line.startswith("ERROR: ") for line in lines) == 100
    assert lines[-1] == "1 more errors were truncated"


@pytest.mark.parametrize("nested", ["[", "(", "{1: ", "a[", "a ? b : "])
def test_nesting_has_a_limit(nested: str) -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(nested * 251)
    assert str(caught.value).startswith("ERROR: <input>:-1:0: expression recursion limit exceeded: 250")
    assert ENV.compile("[" * 249 + "]" * 249).evaluate({}) is not None


@pytest.mark.parametrize("chain", ["1" + " + 1" * 251, "a" + ".b" * 251, "a" + "[0]" * 251])
def test_a_chain_has_a_limit(chain: str) -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(chain)
    assert str(caught.value) == "ERROR: <input>:-1:0: max recursion depth exceeded"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("[a].map(var, 1)", ["9: reserved identifier: var", "9: argument is not an identifier"]),
        ("for(while)", ["1: reserved identifier: for"]),
        ("while", ["1: reserved identifier: while"]),
    ],
)  # fmt: skip
def test_reserved_words_are_no_names(source: str, found: list[str]) -> None:
    assert errors(source) == found


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("a ? {1: 's'} : {}.transformMap(k, v, v + k)", "(dyn, map(int, string), map(bytes, bytes))"),
        ("a ? {1: 's'} : {}.transformMap(k, v, k * v)", "(dyn, map(int, string), map(double, double))"),
        ("1[c]", "(int, !error!)"),
    ],
)
def test_an_unknown_type_is_what_the_first_overload_takes(source: str, shown: str) -> None:
    assert any(shown in found for found in errors(source))


_WORDS = "a b x.y true null in 1 2u 1.5 's' b'x' ( ) [ ] { } . , - ! ? : + * == < && || `e`".split()


@given(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=9))
@settings(max_examples=examples(300), deadline=None)
def test_a_refused_text_has_an_error_and_an_accepted_one_has_none(words: list[str]) -> None:
    """The parser decides what is an expression; the search for errors must agree with it."""
    from kapi.cel.lexer import tokenize
    from kapi.cel.parser import parse
    from kapi.cel.recovery import syntax_errors

    text = " ".join(words)
    try:
        parse(text)
        accepted = True
    except CompileErrors as error:
        accepted = not any("Syntax error" in issue.message for issue in error.issues)
    assert accepted == (not syntax_errors(tokenize(text, []), text))
