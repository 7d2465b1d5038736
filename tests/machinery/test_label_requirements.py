"""Label selectors of very many terms select as those of few, and take little memory."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.machinery.label_requirements import LabelRequirement, PackedRequirements
from kapi.machinery.selectors import SelectorError, parse_labels

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(["", "1", "2", "x"])
SETS = st.frozensets(VALUES, min_size=1)
TERMS = st.one_of(
    st.builds(LabelRequirement, KEYS, st.sampled_from(["in", "notin"]), SETS),
    st.builds(LabelRequirement, KEYS, st.sampled_from(["=", "==", "!="]), VALUES.map(lambda value: frozenset([value]))),
    st.builds(LabelRequirement, KEYS, st.sampled_from(["exists", "!"]), st.just(frozenset())),
    st.builds(LabelRequirement, KEYS, st.sampled_from(["gt", "lt"]), st.just(frozenset(["1"]))),
)


@given(st.lists(TERMS, max_size=4), st.dictionaries(KEYS, VALUES))
def test_they_select_as_each_by_itself(terms: list[LabelRequirement], labels: dict[str, str]) -> None:
    many = PackedRequirements(terms)
    assert many.matches(labels) == all(term.matches(labels) for term in terms)
    assert (list(many), len(many), bool(many)) == (terms, len(terms), bool(terms))
    assert (many == PackedRequirements(terms), hash(many) == hash(PackedRequirements(terms))) == (True, True)
    assert many != PackedRequirements([*terms, LabelRequirement("z", "exists", frozenset())])


@pytest.mark.parametrize("values", ["(a,)", "(,a)", "(a,,)", "(a,,,)", "(,,a)", "(a,,,,,,)", "(a,,a,,a)"])
def test_empty_values_may_stand_among_others(values: str) -> None:
    (term,) = parse_labels(f"x in {values}").requirements
    assert term == LabelRequirement("x", "in", frozenset(["", "a"]))


@pytest.mark.parametrize("values", ["(a b)", "(a,,b", "(a,,=)", "(,"])
def test_values_that_do_not_end_are_refused(values: str) -> None:
    with pytest.raises(SelectorError, match="expected: ','"):
        parse_labels(f"x in {values}")


def text(number: int) -> str:
    return ",".join(f"k{place}!=v{number}-{place}" for place in range(1000))


def test_a_watch_keeps_few_blocks_for_a_thousand_terms() -> None:
    kept = [parse_labels(text(number)) for number in range(10)]  # and what is remembered of names is full
    before = sys.getallocatedblocks()
    kept += [parse_labels(text(number)) for number in range(10, 14)]
    assert sys.getallocatedblocks() - before < 500


def test_such_a_selector_is_read_from_a_request_as_any() -> None:
    selector = parse_labels(f"{text(1)},a in (x,y),b")
    assert len(selector.requirements) == 1002
    assert selector.requirements[:2] == [  # by key
        LabelRequirement("a", "in", frozenset("xy")),
        LabelRequirement("b", "exists", frozenset()),
    ]
    assert selector.matches({"a": "x", "b": "", "k1": "other"})
    assert not selector.matches({"a": "x", "b": "", "k1": "v1-1"})
    assert not selector.matches({"a": "z", "b": ""}) and not selector.matches({"a": "x"})
