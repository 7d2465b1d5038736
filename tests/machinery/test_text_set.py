"""Sets of many texts in a few blocks of memory, as selectors keep them."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from kapi.machinery.selectors import LabelSelector, parse_labels
from kapi.machinery.text_set import TextSet

TEXTS = st.text("ab-.", max_size=4)


@given(st.sets(TEXTS), st.sets(TEXTS))
def test_it_is_a_set(one: set[str], other: set[str]) -> None:
    made = TextSet(one)
    assert (list(made), len(made), made == one) == (sorted(one), len(one), True)
    assert {text for text in one | other if text in made} == one
    assert (made == TextSet(other)) == (one == other)
    assert hash(made) == hash(TextSet(sorted(one, reverse=True)))
    assert 1 not in made


class Alike(str):
    """Has the hash of another text."""

    def __hash__(self) -> int:
        return hash("a")


def test_a_text_with_the_hash_of_another_is_none_of_them() -> None:
    made = TextSet(["a", "bb"])
    assert Alike("a") in made
    assert not any(Alike(other) in made for other in ("b", "ab", "a,", "", "bb"))


def text(number: int, count: int = 2000) -> str:
    return f"n in ({','.join(f'v{number}-{place}' for place in range(count))})"


def test_a_watch_keeps_few_blocks_for_thousands_of_values() -> None:
    kept: list[LabelSelector] = [parse_labels(text(0))]
    before = sys.getallocatedblocks()
    for number in range(1, 5):
        kept.append(parse_labels(text(number)))
    assert sys.getallocatedblocks() - before < 500


def test_nothing_of_them_is_remembered_when_it_has_gone() -> None:
    parse_labels(text(10))
    before = sys.getallocatedblocks()
    for number in range(11, 15):
        parse_labels(text(number))
    assert sys.getallocatedblocks() - before < 500


def test_such_a_selector_selects_as_any() -> None:
    selector, same = parse_labels(text(1)), parse_labels(text(1))
    assert selector.matches({"n": "v1-1999"}) and not selector.matches({"n": "v1-2000"}) and not selector.matches({})
    assert selector.requirements == same.requirements and hash(selector.requirements) == hash(same.requirements)
    others = parse_labels(text(1).replace(" in ", " notin "))
    assert others.matches({}) and others.matches({"n": "v"}) and not others.matches({"n": "v1-0"})
    assert parse_labels(f"n in ({','.join('abc' * 100)})").requirements == parse_labels("n in (c,b,a)").requirements


def test_what_no_line_of_a_request_holds_is_kept_as_it_comes() -> None:
    """Sorting it would hold up everybody."""
    values = [f"{number:x}" for number in range(40_000)]
    (term,) = parse_labels(f"n in ({','.join(values)})").requirements
    assert term.values == frozenset(values) and not isinstance(term.values, TextSet)
    many = parse_labels(",".join(f"k{value}" for value in values))
    assert isinstance(many.requirements, tuple) and not many.matches({"k0": ""})
    assert many.matches({f"k{value}": "" for value in values})
