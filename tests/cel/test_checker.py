"""Parsing and checking: types, upstream's error texts, positions; the static estimate; the Kubernetes libraries."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.cel import CompileErrors, Environment, EvaluationError
from kapi.cel import types as t
from kapi.cel.sizes import MAX_UINT64, ONE, Range

STRUCT = t.StructType("thing", {"a": t.StructField("a", t.INT), "list": t.StructField("list", t.list_of(t.STRING))})
ENV = Environment({"self": STRUCT, "s": t.STRING, "l": t.list_of(t.STRING)})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("self.b == 1", "ERROR: <input>:1:5: undefined field 'b'\n | self.b == 1\n | ....^"),
        ("nope", "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^"),
        (
            "self.a == 'x'",
            "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'\n | self.a == 'x'\n | .......^",
        ),
        (
            "s.size(1)",
            "ERROR: <input>:1:7: found no matching overload for 'size' applied to 'string.(int)'\n | s.size(1)\n | ......^",
        ),
        (
            "[].map(x, x in 1)",
            "ERROR: <input>:1:13: found no matching overload for '@in' applied to '(dyn, int)'\n | [].map(x, x in 1)\n"
            " | ............^",
        ),
        (
            "[1, 'a']",
            "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^",
        ),
        (
            "self.a.all(x, true)",
            "ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n"
            " | self.a.all(x, true)\n | ....^",
        ),
        ("s.matches('[')", "ERROR: <input>:1:11: invalid matches argument\n | s.matches('[')\n | ..........^"),
        (
            "",
            "ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', "
            "'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        (
            "l.exists(",
            "ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', "
            "'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | l.exists(\n | .........^",
        ),
        ("(s", "ERROR: <input>:1:3: Syntax error: missing ')' at '<EOF>'\n | (s\n | ..^"),
        ("((s", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting ')'\n | ((s\n | ...^"),
        (
            "+s",
            "ERROR: <input>:1:1: Syntax error: extraneous input '+' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', "
            "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | +s\n | ^",
        ),
        (
            "nothing{a: nowhere.b}",
            "ERROR: <input>:1:8: undeclared reference to 'nothing' (in container '')\n | nothing{a: nowhere.b}\n | .......^",
        ),
        (
            "[1, dyn(2), dyn('a')]",
            "ERROR: <input>:1:8: expected type 'int' but found 'dyn'\n | [1, dyn(2), dyn('a')]\n | .......^",
        ),
        (
            "[dyn(1), 'a']",
            "ERROR: <input>:1:10: expected type 'dyn' but found 'string'\n | [dyn(1), 'a']\n | .........^",
        ),
        (
            "[optional.of(1), null]",
            "ERROR: <input>:1:18: expected type 'optional_type(int)' but found 'null'\n"
            " | [optional.of(1), null]\n | .................^",
        ),
        (
            "{'a': 1, 'b': dyn(1)}",
            "ERROR: <input>:1:18: expected type 'int' but found 'dyn'\n | {'a': 1, 'b': dyn(1)}\n | .................^",
        ),
        (
            "quantity('1').x",
            "ERROR: <input>:1:14: unexpected failed resolution of 'kubernetes.Quantity'\n | quantity('1').x\n | .............^",
        ),
        (
            "thing{",
            "ERROR: <input>:1:7: Syntax error: mismatched input '<EOF>' expecting {'}', ',', '?', IDENTIFIER, "
            "ESC_IDENTIFIER}\n | thing{\n | ......^",
        ),
        (
            "[",
            "ERROR: <input>:1:2: Syntax error: mismatched input '<EOF>' expecting {'[', ']', '{', '(', '.', ',', '-', '!', "
            "'?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | [\n | .^",
        ),
    ],
)
def test_error_texts(source: str, text: str) -> None:
    with pytest.raises(CompileErrors) as caught:
        ENV.compile(source)
    assert str(caught.value) == text


@pytest.mark.parametrize("source", ["in", ".in", ".true", ".null", "self.in", "1 + in"])
def test_words_of_the_language_are_no_names(source: str) -> None:
    with pytest.raises(CompileErrors, match="Syntax error"):
        ENV.compile(source)


@pytest.mark.parametrize(
    ("source", "type_"),
    [
        ("self.list.map(x, size(x))", "list(int)"),
        ("{'a': self.a}", "map(string, int)"),
        ("l.transformMap(i, v, v + '!')", "map(int, string)"),
        ("self.?a", "optional_type(int)"),
        ("dyn(s) == 1 ? 1 : 2", "int"),
        ("url(s).getQuery()", "map(string, list(string))"),
        # a type parameter becomes the less specific of the types that it stands for
        ("[1] + [dyn('x')]", "list(dyn)"),
        ("[dyn('x')] + [1]", "list(dyn)"),
        ("([1] + [dyn('x')])[1] == 'x'", "bool"),
        ("{'a': 1}.transformMap(k, v, v) == {dyn('a'): 1}", "bool"),
        ("true ? [] : [1]", "list(int)"),
        ("[] + [] + [[]] + [[1]]", "list(list(int))"),
        ("[{}.map(c, c, c)] + [{}.map(c, c, c)]", "list(list(bool))"),
        ("optional.of(dyn(1)).or(optional.of('x')).value()", "dyn"),
    ],
)
def test_result_types(source: str, type_: str) -> None:
    assert t.display(ENV.compile(source).result_type) == type_


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("quantity('1.5Gi').compareTo(quantity('1536Mi'))", 0),
        ("quantity('50k').add(20).asInteger()", 50020),
        ("isQuantity('1.3Gii')", False),
        ("['5', '50k', '1.5e1', '1Ki'].all(q, quantity(q).isInteger())", True),
        (
            "['2000m', '1.50', '1.5Gi', '1000000000000000000', '9999999999999G', '1e20'].exists(q, quantity(q).isInteger())",
            False,
        ),
        ("quantity('500m').add(quantity('500m')).isInteger() || quantity('1.5k').add(1).isInteger()", True),
        ("quantity('999999999999999999').add(quantity('9e18')).isInteger()", False),
        ("quantity('-1e400').asApproximateFloat() < -1e300", True),
        ("quantity('0').add(quantity('3k')).asInteger() - quantity('3k').sub(1).asInteger()", 1),
        (
            "quantity('1e20').isGreaterThan(quantity('10Ei')) && quantity('10Ei') == quantity('9223372036854775807')",
            True,
        ),
        ("ip('::1').isLoopback() && ip('10.1.2.3').family() == 4", True),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
        ("string(cidr('10.1.2.3/8').masked())", "10.0.0.0/8"),
        ("semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('v1.2', true) && !isSemver('1.2')", True),
        ("url('https://u@h.x:80/a b?q=1&q=2').getPort() + url('/p').getEscapedPath()", "80/p"),
        ("url('https://h.x/a?b=c&b=d#e?f').getQuery()", {"b": ["c", "d"]}),
        ("url('/a#b?c=d').getEscapedPath()", "/a"),
        ("isURL('/a?b#%zz')", True),
        ("optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()", False),
        ("optional.ofNonZeroValue(timestamp('1970-01-01T00:00:00Z')).hasValue()", True),
        ("'abc123def45'.findAll('[0-9]+')", ["123", "45"]),
        (
            "['ccc', 'a', 'bb'].sortBy(x, x.size()) == ['a', 'bb', 'ccc'] && [{'n': 2}, {'n': 1}].sortBy(o, o.n)[0].n == 1",
            True,
        ),
        ("[3, 1, 2].sort() == [1, 2, 3] && [1, 2, 3].sum() == 6 && ['a', 'b'].isSorted()", True),
        ("format.named('dns1123Label').value().validate('A').hasValue()", True),
        ("'%s %s'.format(['a', 'b']) + ' ' + 'x,y'.split(',')[1]", "a b y"),
        ("sets.contains([1, 2], [1u == 1u ? 1 : 2])", True),
        ("optional.none().orValue(3)", 3),
        ("[1, 2].first().value() + [3].last().value() + optional.none().orValue([].first().orValue(4))", 8),
        ("sign(quantity('-3'))", -1),
        ("'abc'.indexOf('c', 5) + 'abc'.lastIndexOf('a', 9)", -2),
        ("duration('90m') > duration('1h') && timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020", True),
    ],
)
def test_libraries(source: str, value: Any) -> None:
    assert Environment().compile(source).evaluate({}) == value


def test_errors_of_one_side_do_not_count_when_the_other_decides() -> None:
    assert Environment().compile("1 / 0 == 1 || true").evaluate({}) is True
    assert Environment().compile("[1, 0].exists(x, 1 / x == 1)").evaluate({}) is True
    with pytest.raises(EvaluationError, match="division by zero"):
        Environment().compile("1 / 0 == 1 || false").evaluate({})


def test_the_estimate_follows_declared_sizes() -> None:
    bounded = ENV.compile("l.all(x, x.startsWith('ab'))", size_of=lambda path, kind: Range(0, 10))
    assert bounded.cost_estimate.max == 1 + 10 * (2 + 1 + 2) + 1
    assert ENV.compile("l.all(x, l.all(y, x == y))").cost_estimate.max == MAX_UINT64


@pytest.mark.parametrize("name", ["int", "google.protobuf.Duration", "google.protobuf.Timestamp"])
def test_the_name_of_a_type_is_estimated_as_one_name(name: str) -> None:
    env = Environment({"d": t.DYN})
    assert (
        env.compile(f"type(d) == {name}", size_of=lambda path, kind: ONE if len(path) == 1 else None).cost_estimate.max
        == 4
    )


@pytest.mark.parametrize(
    ("source", "most"),
    [
        ("l.slice(1, 4).size() > 0", 1 + 3 + 11 + 2),
        ("l.slice(size(l) - 1, size(l)).size() > 0", (1 + 1 + 1) + (1 + 1) + 1 + 10 + 11 + 2),
        ("l.reverse().all(x, x)", 1 + 10 + 11 + 10 * (2 + 2) + 1),
        ("[l].flatten().size() > 0", 10 + 1 + 1 + 11 + 2),
        ("[l].flatten(3).size() > 0", 10 + 1 + 3 + 11 + 2),
        ("lists.range(7).all(x, x > 0)", 7 + 11 + 7 * (2 + 1 + 2) + 1),
        ("l.distinct().size() > 0", 1 + 200 + 11 + 2),
        ("l.sort().size() > 0", 1 + 200 + 11 + 2),
        ("l.map(x, string(x)).sort().size() > 0", 1 + 10 + 10 * (1 + 2 + 10 + 1) + 1 + 210 + 11 + 2),
        ("l.sortBy(x, -x).size() > 0", (10 + 1 + 1) + (1 + 10 + 10 * (1 + 10 + 2 + 1) + 1) + 200 + 11 + 2),
        ("sets.equivalent(l, l)", 1 + 1 + 200 + 1),
    ],
)
def test_estimates_of_lists(source: str, most: int) -> None:
    env = Environment({"l": t.list_of(t.BOOL if "all(x, x)" in source else t.INT)})
    program = env.compile(source, size_of=lambda path, kind: Range(0, 10) if kind.kind == "list" else None)
    assert program.cost_estimate.max == most


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("m[true]", "no such key: true"),
        ("m[1u]", "no such key: 1"),
        ("m[1.5]", "no such key: 1.5"),
        ("[1][dyn(7u)]", "index out of bounds: 7"),
        ("[true, true].transformMapEntry(i, v, {v: i})", "insert failed: key true already exists"),
        ("[0u, 0u].transformMapEntry(i, v, {v: i})", "insert failed: key 0 already exists"),
        ("[1, 1].transformMap(i, v, i) == {0: 0} || {true: 1}[false] == 1", "no such key: false"),
        ("semver('1.0.0-a.01')", 'Numeric PreRelease version must not contain leading zeroes "01"'),
    ],
)
def test_keys_in_errors_tell_no_type(source: str, text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        Environment({"m": t.map_of(t.DYN, t.DYN)}).compile(source).evaluate({"m": {}})
    assert str(caught.value) == text


_PREFIX = "network address parse error during conversion from string: "  # upstream has it twice


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "ip('A-b')",
            'IP Address "A-b" parse error during conversion from string: ParseAddr("A-b"): unable to parse IP',
        ),
        ("ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("ip('fe80::1%en0')", 'IP address "fe80::1%en0" with zone value is not allowed'),
        (
            "ip('10.0.0.1%en0')",
            'IP Address "10.0.0.1%en0" parse error during conversion from string: ParseAddr("10.0.0.1%en0"): '
            'unexpected character (at "%en0")',
        ),
        ("cidr('10.0.0.0')", f"{_PREFIX}{_PREFIX}netip.ParsePrefix(\"10.0.0.0\"): no '/'"),
        ("cidr('10.0.0.0/')", f'{_PREFIX}{_PREFIX}netip.ParsePrefix("10.0.0.0/"): bad bits after slash: ""'),
        ("cidr('10.0.0.0/-1')", f'{_PREFIX}{_PREFIX}netip.ParsePrefix("10.0.0.0/-1"): bad bits after slash: "-1"'),
        ("cidr('10.0.0.0/08')", f'{_PREFIX}{_PREFIX}netip.ParsePrefix("10.0.0.0/08"): bad bits after slash: "08"'),
        ("cidr('10.0.0.0/33')", f'{_PREFIX}{_PREFIX}netip.ParsePrefix("10.0.0.0/33"): prefix length out of range'),
        (
            "cidr('10.0.0.0/8/9')",
            f'{_PREFIX}{_PREFIX}netip.ParsePrefix("10.0.0.0/8/9"): ParseAddr("10.0.0.0/8"): unexpected character (at "/8")',
        ),
        (
            "cidr('::1%a/3')",
            f'{_PREFIX}{_PREFIX}netip.ParsePrefix("::1%a/3"): IPv6 zones cannot be present in a prefix',
        ),
        ("cidr('10.0.0.0/8').containsIP('x')", "no such overload"),
        ("cidr('10.0.0.0/8').containsIP('::ffff:1.2.3.4')", "no such overload"),
        ("cidr('::ffff:1.2.3.4/9')", f'{_PREFIX}IPv4-mapped IPv6 address "::ffff:1.2.3.4/9" is not allowed'),
    ],
)
def test_texts_of_addresses_that_are_none(source: str, text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        ENV.compile(source).evaluate({})
    assert str(caught.value) == text
