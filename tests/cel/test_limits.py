"""No expression may hang, exhaust memory or hold up its caller."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest

from kapi.cel import BudgetExceeded, CelError, CompileErrors, Environment, TimeExceeded
from kapi.cel import types as t
from kapi.cel.environment import RUNTIME_BUDGET
from tests.growth.counting import effort, stretches

ENV = Environment({"self": t.list_of(t.STRING), "n": t.list_of(t.INT), "s": t.STRING})
BIG = [f"item-{number}" for number in range(20_000)]
VALUES = {"self": BIG, "n": list(range(50_000)), "s": "a" * 100_000}
FEWER = {**VALUES, "n": list(range(2000)), "s": "a" * 10_000}  # enough to be seen

BOMBS = {
    "quadratic": "self.all(x, self.all(y, x == y || true))",
    "cubic": "self.all(x, self.all(y, self.all(z, x + y + z != '')))",
    "doubling strings": "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28]"
    ".map(x, s + s + s + s + s + s + s + s)",
    "growing by replace": "s.replace('', s).replace('', s)",
    "nested lists": "[s].map(a, [a, a, a, a]).map(b, [b, b, b, b]).map(c, c + c + c + c).all(x, x == x)",
    "chosen doubling": "[self].map(a, a + a).map(b, b + b).map(c, c + c).map(d, d + d).map(e, e + e).map(f, f + f)"
    ".map(g, g + g).map(h, h + h + h + h) == [self]",
    "padding by format": "'%.999f'.format([1.0]).replace('', s) == s",
    "a long range": "lists.range(999999999).size() == 1",
    "regular expression": "s.matches('(a*)*b') || s.matches('(a|a?)+$') || self.all(x, x.matches('^(.*)*x'))",
    "joined": "self.map(x, self.join(x)).join('') == ''",
    "distinct": "n.map(x, -x).distinct().size() == n.size() && n.all(x, n.exists(y, y == x + 1))",
}

#: these look worse than they are: RE2 is linear, elements are shared
HARMLESS = {"nested lists", "regular expression"}
MOST_LINES = 1000  # from one checkpoint to the next
BUDGET = 200_000  # of a bomb, which would use up any


@pytest.mark.parametrize("name", BOMBS)
def test_an_expensive_expression_is_stopped(name: str) -> None:
    program = ENV.compile(BOMBS[name])

    def work() -> None:
        with contextlib.nullcontext() if name in HARMLESS else pytest.raises(CelError):
            program.evaluate(VALUES, budget=BUDGET)

    assert effort(work) < 3_000_000
    tracemalloc.start()
    try:
        work()
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()


#: what walks lists and texts: the budget is no bound of these
WALKS = {
    "sorted": "n.map(x, x * 7919 % 50021).sort().isSorted()",
    "sorted texts": "self.sort().size() > 0",
    "sums": "n.sum() > n.max() + n.min()",
    "searched": "n.indexOf(-1) + n.lastIndexOf(-1) == -2 && !(-1 in n)",
    "flattened": "[n, n, n].flatten().size() > 0 && [[[n]]].flatten(3).size() > 0",
    "equal": "n == n.map(x, x) && {'a': n} == {'a': n.map(x, x)}",
    "sets": "sets.contains(n, n) && sets.equivalent(n, n) && sets.intersects(n, n)",
    "quoted": "strings.quote(s).size() > 0",
    "shown": "'%s'.format([n]).size() + '%s'.format([{'a': n}]).size() > 0",
    "found": "s.findAll('a').size() > 0",
    "a URL": "url('http://' + s + '/?' + s.replace('a', '&a=b')).getQuery().size() == 1",
    "objects": "n.map(x, {'a': [x]}).distinct().size() == n.size()",
}


@pytest.mark.parametrize("name", BOMBS | WALKS)
def test_others_may_work_all_the_time(name: str) -> None:
    program = ENV.compile((BOMBS | WALKS)[name])

    def work() -> None:
        with contextlib.suppress(BudgetExceeded):
            program.evaluate(FEWER, budget=BUDGET if name in BOMBS else RUNTIME_BUDGET)

    found = stretches(work)
    assert found.longest < MOST_LINES, found.where


def test_the_budget_counts_as_upstream_does() -> None:
    program = Environment({"a": t.STRING}).compile("a.contains('xx') && a == 'yy'")
    assert program.run({"a": "zz" * 50})[1] == 12 - 1  # nothing after a false
    with pytest.raises(BudgetExceeded):
        ENV.compile("self.all(x, x != '')").evaluate(VALUES, budget=100)


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        ("self.slice(1, 4).size()", 1 + 3 + 11 + 1),
        ("self.reverse().size()", 1 + 20 + 11 + 1),
        ("['d', 'e'].reverse().size()", 2 + 11 + 1),
        ("[self, self].flatten().size()", 10 + 1 + 1 + 2 + 11 + 1),
        ("[self, self].flatten(3).size()", 10 + 1 + 1 + 6 + 11 + 1),
        ("lists.range(7).size()", 7 + 11 + 1),
        ("n.distinct().size()", 1 + 2 * 30**2 + 11 + 1),
        ("self.distinct().size()", 1 + int(2.1 * 20**2) + 11 + 1),
        ("n.sort().size()", 1 + 2 * 30**2 + 11 + 1),
        ("sets.contains(n, n)", 1 + 1 + 1 + 900),
        ("sets.equivalent(n, n)", 1 + 1 + 1 + 1800),
    ],
)
def test_calls_on_lists_cost_as_upstream(source: str, cost: int) -> None:
    assert ENV.compile(source).run({"self": BIG[:20], "n": list(range(30))})[1] == cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        ("[1, 2, 3].size() == {'a': [1]}.size()", 3),
        ("[self].size()", 10 + 1 + 1),
        ("type(s) == string", 1 + 1 + 1),
        ("timestamp('2030-01-02T03:04:05Z') > timestamp('2020-01-02T03:04:05Z')", 1),
        ("duration(s) > duration('1h')", 1 + 1 + 1),
        ("s in ['1m', '2m', '3m']", 1),
        ("n[0] in [dyn(1), dyn(2.0)]", 1 + 1),
        ("[1] in [[1], [2], [3]]", 3),
        ("n[0] in []", 0),
        ("n.all(x, x in [0, 1])", 1 + 2 * (2 + 1 + 1) + 1),
        ("n.map(x, 'a').size()", 1 + 2 * (1 + 1) + 1 + 1),
        ("n.map(x, x).size()", 1 + 2 * (1 + 1 + 10 + 1) + 1 + 1),
        ("n.exists_one(x, x == 5)", 1 + 2 * (1 + 1) + 1 + 1),
    ],
)
def test_what_is_known_beforehand_costs_nothing(source: str, cost: int) -> None:
    assert ENV.compile(source).run({"self": BIG[:2], "n": [0, 1], "s": "2m"})[1] == cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        ("m['b'].size()", 1 + 1 + 1),
        ("m[s].size()", 1 + 1 + 1),
        ("m[k.key].size()", 1 + 1 + 1 + 1),
        ("m[s + ''].size()", 1 + 1 + 1 + 1 + 1),
        ("s.split(',')[0]", 1 + 1 + 1 + 1),
        ("(s == 'b' ? m : k).b.size()", 1 + 1 + 1 + 1),
        ("s == 'b' ? s : ''", 1 + 1),
        ("s == 'b' ? k.key : ''", 1 + 1 + 1),
        ("s == 'b' ? s + s : ''", 1 + 1 + 1 + 1 + 1),
        ("m.?c.hasValue() || m[?s].hasValue()", (1 + 1) + (1 + 1 + 1)),
        ("k.?x.?y.hasValue() || has(m.b)", (1 + 1) + 1),
        # the target of a macro of optionals is evaluated again when there is a value
        ("optional.of(s).optMap(v, v + v).hasValue()", (1 + 1 + 1) + (1 + 1 + 1) + (1 + 1 + 1) + 1 + 1),
        ("m[?'z'].optMap(v, v + v).hasValue()", (1 + 1) + 1 + 1),
    ],
)
def test_keys_choices_and_absent_fields_cost_as_upstream(source: str, cost: int) -> None:
    env = Environment({"m": t.map_of(t.STRING, t.STRING), "k": t.map_of(t.STRING, t.DYN), "s": t.STRING})
    assert env.compile(source).run({"m": {"b": "x"}, "k": {"key": "b"}, "s": "b"})[1] == cost


def test_a_constant_is_the_same_in_each_evaluation() -> None:
    program = ENV.compile("n.map(x, [1, 2] + [x]) + [[3]]")
    assert program.evaluate({"n": [5]}) == [[1, 2, 5], [3]]
    assert program.evaluate({"n": []}) == [[3]]
    mapped = ENV.compile("n.transformMap(i, x, i)")
    assert [mapped.evaluate({"n": [5]}), mapped.evaluate({"n": [6, 7]})] == [{0: 0}, {0: 0, 1: 1}]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x in [dyn(1), dyn('a'), dyn(2.5)]", [1, 1.0, "a", 2.5]),
        ("x in [dyn(true), dyn(0)]", [True, 0, 0.0]),
        ("x in [dyn([1]), dyn(null)]", [[1.0], None]),
        ("x in [dyn(b'a'), dyn('b')]", [b"a", "b"]),
    ],
)
def test_members_of_a_constant_list(source: str, found: list[object]) -> None:
    program = Environment({"x": t.DYN}).compile(source)
    for value in (1, 1.0, True, False, 0, 0.0, "a", "b", b"a", 2.5, [1], [1.0], None, {}):
        expected = any(
            value.__class__ in (one.__class__, *_NUMBERS.get(one.__class__, ())) and value == one for one in found
        )
        assert program.evaluate({"x": value}) is expected, value


_NUMBERS: dict[type, tuple[type, ...]] = {int: (float,), float: (int,)}


def test_costly_calls_on_lists_need_not_take_long() -> None:
    """Upstream counts all pairs; with a time limit no call is given up for its count."""
    program = ENV.compile("n.distinct().size() + n.sort().size() + (sets.contains(n, n) ? 1 : 0)")
    assert program.evaluate({"n": list(range(300))}, seconds=30.0) == 601


def test_running_out_of_time_is_not_absorbed_by_logic() -> None:
    program = ENV.compile("self.all(x, self.all(y, x != y || true)) || true")
    with pytest.raises(TimeExceeded):
        program.evaluate(VALUES, budget=10**9, seconds=0.01)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 1000 + "1" + ")" * 1000,
        "[" * 1000 + "]" * 1000,
        "-" * 3 + "1+" * 1000 + "1",
        "a." * 1000 + "b",
        "x" * 200_000,
    ],
    ids=["parentheses", "lists", "sums", "selects", "length"],
)
def test_a_deep_or_long_expression_is_refused(source: str) -> None:
    def work() -> None:
        with pytest.raises(CompileErrors):
            ENV.compile(source)

    assert effort(work) < 10 * max(len(source), 10_000)


@pytest.mark.parametrize(
    "source",
    [
        "1 in [" + ",".join(["1"] * 5000) + "]",
        " || ".join(["true"] * 2000),
        "{" + ",".join(f"'k{number}': 1" for number in range(1500)) + "}.size() > 0",
        "[" + ",".join(["self.all(x, x == '')"] * 600) + "].size() > 0",
        "[" + ",".join(["true ? 1 : 2"] * 1200) + "].size() > 0",
        "[" + ",".join(["zz"] * 1000) + "]",
    ],
    ids=["list", "logic", "map", "macros", "choices", "errors"],
)
def test_others_may_work_while_an_expression_is_compiled(source: str) -> None:
    def work() -> None:
        with contextlib.suppress(CompileErrors):
            ENV.compile(source).cost_estimate  # noqa: B018

    found = stretches(work)
    assert found.longest < 30_000, found.where


def test_copies_of_targets_do_not_double_without_end() -> None:
    def work(calls: int) -> int:
        return effort(lambda: ENV.compile("optional.of(1)" + ".optMap(v, v)" * calls).run({}))

    assert work(20) < 4 * work(10)


@pytest.mark.parametrize("nested", ["[{}]", "{{1: {}}}"])
def test_checking_takes_in_proportion_to_depth(nested: str) -> None:
    """The types of nested lists and maps are as deep as they are."""

    def source(depth: int) -> str:
        text = "[]"
        for _ in range(depth):
            text = nested.format(text)
        return text

    few, many = (effort(lambda depth=depth: ENV.compile(source(depth))) for depth in (30, 120))  # type: ignore[misc]
    assert many < 6 * few


def test_shared_parts_of_lists_are_not_copied_to_find_equal_ones() -> None:
    program = ENV.compile("[[1]" + ".map(a, [a, a])" * 18 + "].distinct().size() == 1")
    assert effort(lambda: program.evaluate({})) < 1_000_000


@pytest.mark.parametrize(
    "doubled", [".map(a, {a: a})", ".transformMapEntry(k, v, {{v: v}: {v: v}})", ".map(a, optional.of({a: a}).value())"]
)
def test_types_that_double_are_refused(doubled: str) -> None:
    def work() -> None:
        with pytest.raises(CompileErrors, match="the type of this expression is too large"):
            ENV.compile("[1]" + doubled * 12)

    assert effort(work) < 300_000
    assert ENV.compile("[1]" + doubled * 4).result_type.kind in ("list", "map")


def test_an_expression_that_is_too_long_is_not_looked_at() -> None:
    source = "1\n+" * 700_000 + "1"

    def work() -> None:
        with pytest.raises(CompileErrors) as caught:
            ENV.compile(source)
        assert len(str(caught.value)) < 200

    work()  # what is made with the first error
    assert effort(work) < 1000


def test_a_long_chain_of_logic_is_no_deep_expression() -> None:
    assert ENV.compile(" || ".join(["false"] * 2000)).evaluate(VALUES) is False


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("([dyn(1)] + [dyn(1.0)] + [dyn(true)] + [dyn('1')] + [dyn(1u)]).distinct()", [1, True, "1"]),
        ("[{'a': dyn([1])}, {'a': dyn([1.0])}, {'a': dyn([true])}].distinct().size()", 2),
        ("[duration('60s'), duration('1m')].distinct().size()", 1),
        ("[optional.of(1), optional.of(1), optional.none()].distinct().size()", 2),
        ("sets.contains([{'a': dyn(1)}, {'b': dyn(2)}], [{'b': dyn(2.0)}])", True),
        ("sets.intersects([[1, 2]], [[2, 1]])", False),
    ],
)
def test_lists_are_walked_once_and_equal_values_found(expression: str, wanted: object) -> None:
    assert Environment().compile(expression).evaluate({}) == wanted


def test_distinct_objects_of_a_long_list_are_found_at_once() -> None:
    env = Environment({"self": t.list_of(t.map_of(t.STRING, t.INT))})
    values = [{"a": number, "b": 1} for number in range(5_000)]
    program = env.compile("self.distinct().size() == self.size()")
    budget = 3 * len(values) ** 2  # upstream counts comparisons of all pairs
    assert effort(lambda: program.evaluate({"self": values}, budget)) < 100 * len(values)
    assert program.evaluate({"self": values}, budget) is True
