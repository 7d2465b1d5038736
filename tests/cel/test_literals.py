"""What is refused before an expression ever runs: constants and formats that cannot work."""

from __future__ import annotations

import pytest

from kapi.cel import CompileErrors, Environment, EvaluationError
from kapi.cel import types as t

ENV = Environment({"d": t.DURATION, "s": t.STRING, "any": t.DYN, "o": t.list_of(t.STRING)})


@pytest.mark.parametrize(
    ("source", "column", "text"),
    [
        ("'%x'.format([d])", 14, "only integers, byte buffers, and strings can be formatted as hex, was given "
         "google.protobuf.Duration"),
        ("'%o'.format(['a'])", 14, "octal clause can only be used on integers, was given string"),
        ("'%e'.format([true])", 14, "scientific clause can only be used on doubles, was given bool"),
        ("'%b'.format([1.5])", 14, "only integers and bools can be formatted as binary, was given double"),
        ("'%d'.format([s])", 14, "decimal clause can only be used on integers, was given string"),
        ("'%s'.format([[ip('::1')]])", 17, "string clause can only be used on strings, bools, bytes, ints, doubles, "
         "maps, lists, types, durations, and timestamps, was given net.IP"),
    ],
)  # fmt: skip
def test_a_clause_takes_its_own_types(source: str, column: int, text: str) -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(source)
    assert str(caught.value).startswith(f"ERROR: <input>:1:{column}: error during formatting: {text}\n")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'%%'.format([s])", "too many arguments supplied to string.format (expected 0, got 1)"),
        ("'%s-%d'.format([])", "index 0 out of range"),
        ("'%5d'.format([1])", 'could not parse formatting clause: unrecognized formatting clause "5"'),
        ("'a%'.format([1])", "unexpected end of string"),
        ("'%.2'.format([1.0])", "could not parse formatting clause: error while parsing precision: could not find end of "
         "precision specifier"),
        ("s == string(timestamp(9223372036854775807))", "invalid timestamp argument"),
        ("d == duration('1w')", "invalid duration argument"),
        ("d == duration(1)", "invalid duration argument"),
        ("s.reverse() == s", "found no matching overload for 'reverse' applied to 'string.()'"),
        ("quantity('1').sign() == 1", "found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'"),
        ("cel.bind(x, 1, x) == 1", "undeclared reference to 'cel' (in container '')"),
    ],
)  # fmt: skip
def test_what_the_checker_refuses(source: str, text: str) -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(source)
    assert f": {text}\n" in str(caught.value)
    assert caught.value.reason.startswith("compilation failed: ERROR")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("s.find('(') == ''", "error parsing regexp: missing closing ): `(`"),
        ("s.findAll('a**', 1).size() == 0", "error parsing regexp: invalid nested repetition operator: `**`"),
        ("s.findAll('(', s.size()).size() == 0", "error parsing regexp: missing closing ): `(`"),
        ("double('x') > 1.0", "type conversion error from 'string' to 'double'"),
        ("int(string('a')) > 1 || true", "type conversion error from 'string' to 'int'"),
        ("int('9223372036854775808') > 1", "type conversion error from 'string' to 'int'"),
        ("int('-9223372036854775809') > 1", "type conversion error from 'string' to 'int'"),
        ("uint('18446744073709551616') > 1u", "type conversion error from 'string' to 'uint'"),
    ],
)
def test_constants_are_computed_before_the_program_runs(source: str, text: str) -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(source)
    assert caught.value.reason == f"program instantiation failed: {text}"


def test_what_is_not_constant_is_left_to_the_evaluation() -> None:
    ENV.compile("s.find(s) == '' && double(s) > 1.0 && '%x'.format([any]) == s && '%s'.format([o]) == s")
    ENV.compile("s.format([d]) == '%x'.format(o)")


def test_what_is_formatted_may_be_of_several_types() -> None:
    """Though elements of a literal list are of one type elsewhere."""
    assert ENV.compile("'%s %d %s'.format(['a', 1, [1, 'b']])").evaluate({}) == 'a 1 [1, "b"]'
    for source in ("['a', 1] == [1]", "['%s'.format([s]), 1] == [1]"):
        with pytest.raises(CompileErrors, match="expected type 'string' but found 'int'"):
            ENV.compile(source)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'%s %s'.format([['a', 'ü\"'], {'k': 1.5, 'j': 2.0}])", '["a", "ü\\""] {"j":2.000000, "k":1.500000}'),
        ("'%s'.format([[duration('1s'), timestamp(0)].map(x, [x])])", '[[duration("1s")], [timestamp("1970-01-01T00:00:00Z")]]'),
        ("'%.2f|%f'.format([1234567.891, 'Infinity'])", "1,234,567.89|∞"),
        ("'%e'.format([1052.032911275])", "1.052033×10⁰³"),
        ("'%s'.format([{'a': 1, 'a': 2}])", '{"a":2}'),
        ("'%X %x %o %b %d%%'.format([255, 'a', 8u, true, -3])", "FF 61 10 1 -3%"),
    ],
)  # fmt: skip
def test_what_a_format_writes(source: str, text: str) -> None:
    assert Environment(homogeneous=False).compile(source).evaluate({}) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("string(1e-7)", "1e-07"),
        ("string(0.0001)", "0.0001"),
        ("string(123456.0)", "123456"),
        ("string(1234567.0)", "1.234567e+06"),
        ("string(1e20)", "1e+20"),
        ("string(-0.0)", "-0"),
        ("string(timestamp('2024-01-01T00:00:00.5+02:00') + duration('1h'))", "2024-01-01T01:00:00.5+02:00"),
        ("string(timestamp('2024-01-01T00:00:00-00:30') - duration('1h'))", "2023-12-31T23:00:00-00:30"),
        ("string(timestamp('2024-01-01T00:00:00+00:00'))", "2024-01-01T00:00:00Z"),
        ("string(timestamp('2024-01-01T00:00:00+02:00').getHours())", "22"),
        ("string(timestamp('2024-01-01T00:00:00+02:00') == timestamp('2023-12-31T22:00:00Z'))", "true"),
        ("string(duration('1.5s').getMilliseconds())", "1500"),
        ("string(duration('-1.5s').getMilliseconds())", "-1500"),
        ("string(duration('1000000000.123456789s'))", "1000000000.1234568s"),
        ("string(duration('-1ns'))", "-0.000000001s"),
    ],
)
def test_numbers_and_times_as_text(source: str, text: str) -> None:
    assert ENV.compile(source).evaluate({}) == text


def test_what_stands_in_for_an_absent_value_is_evaluated_only_then() -> None:
    assert ENV.compile("optional.of(1).orValue(1 / 0)").evaluate({}) == 1
    assert ENV.compile("optional.of(1).or(optional.of(1 / 0)).value()").evaluate({}) == 1
    with pytest.raises(EvaluationError, match="division by zero"):
        ENV.compile("optional.none().orValue(1 / 0)").evaluate({})


@pytest.mark.parametrize(("key", "kind"), [("null", "null_type"), ("1.5", "double")])
def test_a_map_may_have_keys_that_cannot_be_written(key: str, kind: str) -> None:
    assert ENV.compile(f"{{{key}: 1}}.size()").evaluate({}) == 1
    with pytest.raises(EvaluationError, match=f"no formatting function for map key of type {kind}"):
        ENV.compile(f"'%s'.format([{{{key}: 1}}])").evaluate({})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("[1 2]", "1:4: Syntax error: extraneous input '2' expecting {']', ','}"),
        ("[1, 2)", "1:6: Syntax error: mismatched input ')' expecting {']', ','}"),
        ("{'a': 1 2}", "1:9: Syntax error: extraneous input '2' expecting {'}', ','}"),
        ("[2].map(1, 1)", "1:9: argument is not an identifier"),
        ("[2].filter(1, true)", "1:12: argument is not an identifier"),
        ("[2].sortBy(1, 1)", "1:12: argument is not an identifier"),
        ("[2].all(1, true)", "1:9: argument must be a simple name"),
        ("true && 'a' || 1", "1:9: expected type 'bool' but found 'string'"),
    ],
)
def test_errors_are_told_where_and_as_the_grammar_tells_them(source: str, text: str) -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(source)
    assert f"ERROR: <input>:{text}\n" in str(caught.value)


@pytest.mark.parametrize("value", [None, 1, "text"])
def test_what_has_no_fields(value: object) -> None:
    """Fields of it are missing keys, and tests for them fail without an error."""
    env = Environment({"v": t.DYN})
    for source in ("v.x", "v['x']"):
        with pytest.raises(EvaluationError, match="no such key: x"):
            env.compile(source).evaluate({"v": value})
    assert env.compile("has(v.x)").evaluate({"v": value}) is False
    assert env.compile("v.?x.orValue(7)").evaluate({"v": value}) == 7
