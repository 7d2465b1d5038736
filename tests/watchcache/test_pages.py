"""A page of what a selector selects is the same whether objects are looked at one by one or many at once."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kapi.machinery.label_requirements import LabelRequirement
from kapi.machinery.selectors import FieldSelector, LabelSelector, Predicate, parse_fields
from kapi.watchcache.entry import ByteBudget, Entry, Scope
from kapi.watchcache.pages import read
from kapi.watchcache.selection import matcher
from kapi.watchcache.sorted_entries import Range, SortedEntries

COUNT = 1000


def entries() -> SortedEntries:
    """Of 1,000 objects, some without labels."""
    seeded = random.Random(7)
    kept = ByteBudget(1000, Entry.forget_object)
    scope = Scope(kept, kept, {}, True)
    found = {}
    for number in range(COUNT):
        key = f"n/{number:04d}"
        labels = b'"labels":{"a":"%d","b":"%d"},' % (seeded.randrange(3), seeded.randrange(40))
        data = b'{"kind":"X","apiVersion":"v1","metadata":{"resourceVersion":"1",%s"name":"%04d"}}'
        found[key] = Entry(scope, key, "n", key[2:], 1, data % (labels if number % 9 else b"", number))
    return SortedEntries(found, list(found.values()), 0)


ENTRIES = entries()
TERMS = st.builds(
    lambda key, operator, values: LabelRequirement(
        key, operator, frozenset(values[:1] if operator in ("=", "==", "!=", "gt", "lt") else values)
    ),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]),
    st.lists(st.sampled_from(["0", "1", "2", "17"]), min_size=1, max_size=3),
)
FIELDS = st.sampled_from(["", "metadata.name=0500", "metadata.name!=0500"])


def field_selector(text: str) -> FieldSelector:
    return parse_fields(text) if text else FieldSelector()


@given(st.lists(TERMS, max_size=10), FIELDS, st.integers(0, 300), st.integers(0, COUNT))
def test_pages_of_a_selection(terms: list[LabelRequirement], fields: str, limit: int, start: int) -> None:
    predicate = Predicate(LabelSelector(tuple(terms)), field_selector(fields))
    matches = matcher(predicate) or (lambda entry: True)
    place = Range.of("n", f"{start:04d}")
    there = [entry for entry in ENTRIES.in_order() if entry.key in place]
    wanted = [entry for entry in there if matches(entry)]
    page = read(ENTRIES, place, predicate, limit)
    if predicate.empty:
        assert page.entries == wanted[: limit or COUNT]
        return
    if not limit or len(wanted) < limit:
        assert (page.entries, page.fetched, page.remaining) == (wanted, len(there), 0)
    else:  # a full page ends at its last entry, and others may follow that are not selected
        assert page.entries == wanted[:limit]
        assert page.fetched == there.index(wanted[limit - 1]) + 1
        assert page.remaining == (len(there) - limit if page.fetched < len(there) else 0)


@given(st.integers(0, COUNT + 5), st.integers(1, 400), st.sampled_from(["n", "m", ""]))
def test_pages_are_the_same_once_everything_was_listed(start: int, limit: int, namespace: str) -> None:
    fresh = entries()
    place = Range.of(namespace, f"{start:04d}" if namespace else f"n/{start:04d}")
    before = read(fresh, place, None, limit)
    there = [entry.key for entry in fresh.in_order() if entry.key in place]
    after = read(fresh, place, None, limit)
    assert [entry.key for entry in before.entries] == [entry.key for entry in after.entries] == there[:limit]
    assert before.remaining == after.remaining == max(0, len(there) - limit)
    assert before.fetched == after.fetched == len(before.entries)


def test_a_page_after_a_change_is_of_what_there_is_now() -> None:
    changed = entries()
    assert len(changed.in_order()) == COUNT
    changed.remove("n/0003")
    page = read(changed, Range.of("n", "0002"), None, 2)
    assert ([entry.key for entry in page.entries], page.remaining) == (["n/0002", "n/0004"], COUNT - 5)
