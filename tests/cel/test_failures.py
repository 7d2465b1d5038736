"""What an expression costs, and which error it has, when an operand fails or no overload accepts the operands."""

from __future__ import annotations

import json

import pytest

from kapi.cel import CompileErrors, Environment, EvaluationError
from kapi.cel import types as t
from kapi.cel.frame import Frame

ENV = Environment(
    {
        "x": t.DYN,
        "i": t.INT,
        "s": t.STRING,
        "b": t.BOOL,
        "li": t.list_of(t.INT),
        "ls": t.list_of(t.STRING),
    },
    binding=True,
)
X = json.loads('{"a":1,"s":"hello world","l":[1,2,3],"ls":["a","b"],"m":{"k":"v"},"n":null,"f":1.5}')
VALUES = {
    "x": X,
    "i": 3,
    "s": "abcdefghijklmnopqrstuvwxyz",
    "b": True,
    "li": [3, 1, 2],
    "ls": ["a", "bb", "ccc"],
}

#: as the runtime cost tracker of cel-go counts: a failed operand has the size 1
COSTS = [
    ("x.q == 1 || b", 4),
    ("x.q.r.t == 1 || b", 4),
    ("li[7] + 1 == 2 || b", 5),
    ("-(1/(i-3)) == 1 || b", 6),
    ("(b ? x.q : x.a) == 1 || b", 4),
    ("(1/(i-3) > 3 ? s : 'a') == s || b", 7),
    ("[x.q] == [1] || b", 14),
    ("{'a': x.q} == {'a':1} || b", 34),
    ("li.exists(y, 1/(y-1) == 1 && y == 2) || b", 30),
    ("li.exists_one(y, 1/(y-1) == 1) || b", 18),
    ("li.map(y, 1/(y-1)) == li || b", 50),
    ("li.filter(y, 1/(y-1) == 1) == li || b", 30),
    ("li.transformList(k, v, 1/(v-1)) == li || b", 50),
    ("x.m.transformMap(k, v, v.q) == x.m || b", 12),
    ("li.transformMapEntry(k, v, {'a': k}) == x.m || b", 105),
    ("x.q.startsWith(s) || b", 5),
    ("s.startsWith(x.q) || b", 7),
    ("s.substring(x.q, 50) == 'a' || b", 5),
    ("s.substring(i, x.q) == 'a' || b", 9),
    ("x.q.split(',') == ls || b", 6),
    ("s.split(x.q) == ls || b", 12),
    ("s.replace('a', x.q) == 'a' || b", 11),
    ("s.find(x.q) == 'a' || b", 8),
    ("x.q.format([1]) == s || b", 5),
    ("'%s'.format([x.q]) == s || b", 16),
    ("x.q.indexOf(i) == 1 || b", 6),
    ("sets.contains(li, x.q) || b", 8),
    ("li.slice(1, 9) == li || b", 16),
    ("quantity(x.q).isInteger() || b", 5),
    ("cidr('10.0.0.0/8').containsIP(x.q) || b", 5),
    ("format.dns1123Label().validate(x.q).hasValue() || b", 13),
    ("semver(s).major() == 1 || b", 7),
    ("has(x.q.r) || b", 2),
    ("x.q.?r.hasValue() || b", 4),
    ("x.?q.or(optional.of(1/(i-3))).hasValue() || b", 7),
    ("x.?a.optMap(y, y/0 == 1 || y == 1).hasValue() || b", 13),
    ("x.l[?'k'].hasValue() || b", 4),
    ("x.q[s] == 1 || b", 4),
    ("li.map(y, y)[i/0] == 1 || b", 47),
    ("string(x.q) + s == s || b", 10),
    ("i in x.q || b", 5),
    ("x.q in li || b", 7),
    ("x.s < x.s", 5),
    ("x.s + x.s == x.s", 9),
    ("bytes(x.s) == bytes(s)", 9),
    ("matches(x.s, s)", 4),
    ("x.a in x.l", 5),
    ("x.l.sort() == x.l", 6),
    ("dyn(cidr('1.2.3.0/24')).containsIP(dyn('1.2.3.4'))", 3),
    ("x.?s == optional.of(s)", 6),
    ("format.uuid().validate(s).hasValue()", 57),
]
ERRORS = [
    ("x.a + 1.5 == 2.5", "no such overload"),
    ("x.n + 1 == 2", "no such overload: _+_"),
    ("x.n < x.n", "no such overload: _<_"),
    ("-x.s == 1", "no such overload"),
    ("size(x.a) == 1", "no such overload: size"),
    ("x.a.startsWith('a')", "no such overload"),
    ("x.a.substring(1) == 'a'", "no such overload: substring(int, int)"),
    ("x.s.substring(x.s) == 'a'", "no such overload: substring(string, string)"),
    ("x.l.join() == 'a'", "no such overload: join(list)"),
    ("x.a.sum() == 1", "no such overload: sum(int)"),
    ("x.a.flatten() == li", "no such overload: int.flatten()"),
    ("x.a.sort() == li", "no such overload: sort"),
    ("x.s.sort() == li", "no such overload"),
    ("x.s * 2 == 1", "no such overload"),
    ("x.ls.sortBy(y, x.m) == ls", "list elements must be comparable"),
    ("string(x.l) == 'a'", "no such overload: string(list)"),
    ("int(x.n) == 1", "no such overload: int(null_type)"),
    ("quantity('1').add(x.s).isInteger()", "no such overload: add(kubernetes.Quantity, string)"),
    ("cidr('10.0.0.0/8').containsIP(x.a)", "no such overload: containsIP(net.CIDR, int)"),
    ("x.a.getHours() == 1", "no such overload: getHours(int)"),
    (
        "timestamp('2020-01-01T00:00:00Z').getFullYear(x.a) == 1",
        "no such overload: getFullYear(google.protobuf.Timestamp, int)",
    ),
    ("x.a.hasValue()", "no such overload: hasValue(int)"),
    ("x.a.all(y, y)", "got 'types.Int', expected iterable type"),
    ("x.s.all(k, v, v == 1)", "unsupported comprehension range type: types.String"),
    ("x.n.map(y, y) == li", "got 'types.Null', expected iterable type"),
    ("x.l.transformMapEntry(k, v, x.a) == x.m", "no such overload: cel.@mapInsert(map, int)"),
    ("sets.contains(x.a, x.l)", "no such overload: sets.contains(int, list)"),
    ("dyn(ip('1.2.3.4')) == 'a'", "no such overload"),
    (
        "x.q.distinct() == li || b",
        "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add",
    ),
    ("li.flatten(x.q) == li || b", "internal error: interface conversion: ref.Val is *types.Err, not types.Int"),
    ("[1,2,3].filter(y, y == 1 ? 1/0 == 1 : x.foo) == li", "no such key: foo"),
]


@pytest.mark.parametrize(("source", "cost"), COSTS)
def test_a_failed_operand_costs_what_it_costs_upstream(source: str, cost: int) -> None:
    program = ENV.compile(source)
    assert program.run(VALUES)[1] == cost


@pytest.mark.parametrize(("source", "error"), ERRORS)
def test_operands_that_no_overload_accepts_are_named_as_upstream(source: str, error: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        ENV.compile(source).evaluate(VALUES)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("source", "value", "cost"),
    [
        ("cel.bind(a, x.q, b)", True, 1),  # nobody asks for the value
        ("cel.bind(a, x.q, a == 1 || a == 1 || b)", True, 7),  # it fails once, and is read twice
        ("cel.bind(a, x.a, a == 1 && a == 1)", True, 6),
    ],
)
def test_a_bound_name_is_computed_on_first_use(source: str, value: object, cost: int) -> None:
    assert ENV.compile(source).run(VALUES) == (value, cost)


def test_a_comprehension_goes_on_after_a_failed_element_within_its_budget() -> None:
    program = ENV.compile("li.map(y, y / 0).size() == 0 || b")
    frame = Frame({**VALUES, "li": [1] * 1000}, 16, 5000, 0.0)
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        program.run_in(frame)
    assert frame.cost < 5100


def test_exists_one_with_one_variable_has_one_name() -> None:
    """``existsOne`` is a macro of two variables."""
    assert ENV.compile("li.existsOne(k, v, v == 1)").evaluate(VALUES) is True
    with pytest.raises(CompileErrors, match="undeclared reference to 'existsOne'"):
        ENV.compile("li.existsOne(v, v == 1)")


@pytest.mark.parametrize("moment", ["2020-01-01t00:00:00z", "2020-01-01T00:00:00.5+01:00"])
def test_moments_of_formats_are_those_of_schemas(moment: str) -> None:
    assert ENV.compile(f"format.datetime().validate('{moment}').hasValue()").evaluate(VALUES) is False


def test_the_estimated_size_of_a_quoted_text_of_any_length_overflows_as_upstream() -> None:
    assert ENV.compile("strings.quote(s) == s").cost_estimate.max == 1844674407370955266
