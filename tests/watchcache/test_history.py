"""Which changes of a resource are known, and which of them are compressed together."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from kapi.store.errors import Compacted
from kapi.watchcache.event import ADDED, DELETED, MODIFIED, CacheEvent
from kapi.watchcache.history import History, first_of
from kapi.watchcache.sorted_entries import Former, Range

HERE, ELSEWHERE = object(), object()


def entry(size: int = 1, scope: object = HERE, key: str = "a") -> Any:
    return SimpleNamespace(data=b"x" * size, scope=scope, key=key, forget_object=lambda: None)


def changes(*sizes: int) -> list[Any]:
    return [SimpleNamespace(revision=number, entry=entry(size), previous=None) for number, size in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("sizes", "until", "count"),
    [
        ([1] * 31, 100, 0), ([1] * 32, 100, 32), ([1] * 256, 300, 256), ([1] * 257, 300, 256),
        ([1] * 40, 32, 32), ([1] * 40, 31, 0),
        ([31_999], 9, 0), ([32_000], 9, 1), ([16_000, 16_000], 2, 2), ([16_000, 16_000], 1, 0),
        ([256_000, 256_000, 1], 9, 2), ([256_000, 255_999, 1], 9, 3), ([512_000, 1], 9, 1), ([600_000, 1], 9, 1), ([], 9, 0),
    ],
)  # fmt: skip
def test_how_many_changes_are_compressed_together(sizes: list[int], until: int, count: int) -> None:
    events = changes(*sizes)
    assert first_of(events, until) == events[:count]


def test_a_state_counts_once() -> None:
    events = changes(20_000, 11_999)
    events[1].previous = events[0].entry
    assert first_of(events, 9) == []
    events[1].previous = entry(1)
    assert first_of(events, 9) == events


@pytest.mark.parametrize(("what", "count"), [("entry", 1), ("previous", 1), ("", 3)])
def test_states_of_another_store_are_compressed_apart(what: str, count: int) -> None:
    events = changes(40_000, 1, 1)
    if what:
        setattr(events[1], what, entry(scope=ELSEWHERE))
    assert first_of(events, 9) == events[:count]


def history(*revisions: int, complete_after: int = 0, floor: int = 0) -> History:
    return History(deque(CacheEvent(each, MODIFIED, entry(), None) for each in revisions), complete_after, floor)


@pytest.mark.parametrize(
    ("found", "newest", "gone_at"),
    [
        (history(), 0, 0), (history(3, 5), 5, 5), (history(3, 5, floor=7), 5, 7), (history(3, 5, complete_after=6), 5, 6),
        (history(floor=2), 0, 2),
    ],
)  # fmt: skip
def test_a_history_is_gone_when_all_of_it_is_older(found: History, newest: int, gone_at: int) -> None:
    assert found.newest == newest
    assert found.is_gone(gone_at) and not found.is_gone(gone_at - 1)


@pytest.mark.parametrize(
    ("since", "floor", "with_previous", "oldest"),
    [
        (10, 5, False, None), (7, 5, False, None), (4, 5, False, 7), (8, 9, False, 9), (6, 0, False, 7), (6, 9, False, 9),
        (8, 0, True, 9), (9, 0, True, None), (8, 0, False, None), (9, 10, True, 10),
    ],
)  # fmt: skip
def test_which_revisions_may_be_asked_for(since: int, floor: int, with_previous: bool, oldest: int | None) -> None:
    found = history(8, 12, complete_after=9, floor=7)
    if oldest is None:
        found.check(since, floor, with_previous=with_previous)
        return
    with pytest.raises(Compacted) as caught:
        found.check(since, floor, with_previous=with_previous)
    assert vars(caught.value) == vars(Compacted(since, oldest))


@pytest.mark.parametrize(
    ("since", "until", "revisions"),
    [
        (2, 99, [3, 5, 9]), (3, 99, [5, 9]), (3, 9, [5, 9]), (3, 8, [5]), (9, 99, []), (4, 4, []), (2, 2, []), (2, 3, [3]),
    ],
)  # fmt: skip
def test_changes_between_two_revisions(since: int, until: int, revisions: list[int]) -> None:
    found = history(3, 5, 9, floor=2)
    assert [event.revision for event in found.after(since, until)] == revisions
    assert [event.revision for event in found.all_after(since, until)] == revisions
    with pytest.raises(Compacted) as caught:
        found.after(1, until)
    assert vars(caught.value) == vars(Compacted(1, 2))


def test_many_changes_come_in_parts() -> None:
    found = history(*range(1, 4002))
    for since, first, count in ((0, 1, 2000), (1, 2, 2000), (2000, 2001, 2000), (2001, 2002, 2000), (2002, 2003, 1999)):
        part = [event.revision for event in found.after(since, 9999)]
        assert (part[0], len(part)) == (first, count) and part == list(range(first, first + count))
    assert [event.revision for event in found.all_after(0, 9999)] == list(range(1, 4002))


@pytest.mark.parametrize(
    ("until", "left", "floor"), [(2, 3, 2), (3, 2, 3), (4, 2, 3), (9, 0, 9), (99, 0, 9), (0, 3, 2)]
)
def test_what_is_too_old_is_dropped(until: int, left: int, floor: int) -> None:
    found = history(3, 5, 9, floor=2)
    found.trim(until)
    assert (len(found), found.floor) == (left, floor)


def test_a_cleared_history_stays_cleared() -> None:
    found = history(3, 5)
    found.clear(7)
    assert (len(found), found.newest, found.floor) == (0, 0, 7)
    found.trim(4)
    assert found.floor == 7


def test_former_states_are_kept_for_some_revisions() -> None:
    found = history(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    first = found.former(1)
    made = [found.former(revision) for revision in range(2, 9)]
    assert found.former(1) is first
    found.former(9)
    assert found.former(2) is made[0]
    assert found.former(1) is not first, "it was the oldest of more than eight"


def test_former_states_are_those_before_the_first_change() -> None:
    one, two = entry(key="a"), entry(key="b")
    found = History(
        deque([
            CacheEvent(1, ADDED, one, None), CacheEvent(2, MODIFIED, one, one), CacheEvent(3, DELETED, two, two),
            CacheEvent(4, ADDED, two, None),
        ]), 0, 0,
    )  # fmt: skip
    assert found.former(0).by_key == {"a": None, "b": two}
    assert found.former(1).by_key == {"a": one, "b": two}
    assert found.former(3).by_key == {"b": None} and found.former(4).by_key == {}
    incomplete = history(3, 5, complete_after=3)
    assert incomplete.former(3).until == 5
    with pytest.raises(Compacted):
        incomplete.former(2)


@pytest.mark.parametrize(("place", "more"), [(Range(), 0), (Range.of("a"), 1), (Range.of("b"), -1), (Range.of("c"), 0)])
def test_how_many_more_objects_there_were(place: Range, more: int) -> None:
    former = Former(0)
    former.note("a/gone", 1, entry(), deleted=True)
    former.note("a/back", 2, entry(), deleted=True)
    former.note("a/back", 3, None, deleted=False)
    former.note("b/new", 4, None, deleted=False)
    former.note("b/short", 5, None, deleted=False)
    former.note("b/short", 6, entry(), deleted=True)
    former.note("c/changed", 7, entry(), deleted=False)
    now = dict.fromkeys(("a/back", "b/new", "c/changed"), entry())
    assert (former.more(place, now), former.until) == (more, 7)
