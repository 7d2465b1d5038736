"""Of many objects others are served while some are selected, and what is selected is of one moment."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from kapi.endpoints.listing import size_of
from kapi.machinery.selectors import FieldSelector, Predicate, parse_fields, parse_labels
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import ByteBudget, Entry, Scope
from kapi.watchcache.pages import ListPart, read
from kapi.watchcache.sorted_entries import Former, Range, SortedEntries
from tests.process.turns import Turns

COUNT = 10_000
MOST = 1024  # entries that are looked at in one turn
_KEPT = ByteBudget(1000, Entry.forget_object)
_SCOPE = Scope(_KEPT, _KEPT, {}, True)


def entry(number: int, revision: int = 1, color: str = "") -> Entry:
    name = f"{number:06d}"
    color = color or ("red" if number % 3 else "blue")
    data = b'{"kind":"X","apiVersion":"v1","metadata":{"resourceVersion":"%d","labels":{"color":"%s"},"name":"%s"}}'
    return Entry(_SCOPE, f"n/{name}", "n", name, revision, data % (revision, color.encode(), name.encode()))


class Selected(Turns):
    def setUp(self) -> None:
        super().setUp()
        there = [entry(number) for number in range(COUNT)]
        self.there = there
        self.entries = SortedEntries({one.key: one for one in there}, there, 0)
        self.former = Former(0)

    def change(self, turn: int) -> None:
        """What others write in a turn; the history notes what was there before."""
        for one in (entry(turn * 97 % COUNT, turn + 2, "red"), entry(COUNT + turn, turn + 2, "red")):
            self.former.note(one.key, turn, self.entries.put(one), deleted=False)
        gone = f"n/{(turn * 89 + 1) % COUNT:06d}"
        previous = self.entries.remove(gone)
        if previous is not None:
            self.former.note(gone, turn, previous, deleted=True)

    def finish(self, work: Deferred[Any]) -> tuple[Any, int]:
        """The outcome and the turns until it was there, in each of which others write."""
        turns = 0
        while not work.called:
            self.change(turns)
            self.turn()
            turns += 1
        return self.successResultOf(work), turns

    def was(self) -> Former:
        self.former.sort()
        return self.former

    def read(self, predicate: Predicate | None, limit: int = 0, former: Any = None) -> tuple[ListPart, int]:
        found: tuple[ListPart, int] = self.finish(
            self.slices.call(read, self.entries, Range(), predicate, limit, former)
        )
        return found

    def test_by_labels(self) -> None:
        found, turns = self.read(Predicate(parse_labels("color=blue"), FieldSelector()))
        self.assertEqual(found.entries, [one for one in self.there if one.labels["color"] == "blue"])
        self.assertGreaterEqual(turns, COUNT // MOST)

    def test_by_fields(self) -> None:
        found, turns = self.read(Predicate(parse_labels(""), parse_fields("metadata.name!=000007")))
        self.assertEqual(len(found.entries), COUNT - 1)
        self.assertGreaterEqual(turns, COUNT // MOST)

    def test_as_it_was(self) -> None:
        for turn in range(200):
            self.change(turn)
        found, turns = self.read(None, former=self.was())
        self.assertEqual(found.entries, self.there)
        self.assertGreaterEqual(turns, COUNT // MOST)

    def test_a_long_page_of_what_was(self) -> None:
        for turn in range(200):
            self.change(turn)
        found, turns = self.read(None, 6000, self.was())
        self.assertEqual((found.entries, found.fetched, found.remaining), (self.there[:6000], 6000, COUNT - 6000))
        self.assertGreaterEqual(turns, COUNT // MOST)

    def test_a_selection_of_what_was(self) -> None:
        for turn in range(200):
            self.change(turn)
        found, _ = self.read(Predicate(parse_labels("color=blue"), FieldSelector()), 3000, self.was())
        blue = [one for one in self.there if one.labels["color"] == "blue"]
        self.assertEqual((found.entries, found.remaining), (blue[:3000], COUNT - 3000))

    def test_the_size_of_a_list(self) -> None:
        size, turns = self.finish(self.slices.call(size_of, self.there))
        self.assertEqual(size, sum(len(one.data) for one in self.there))
        self.assertGreaterEqual(turns, 2)


class Loaded(Turns):
    def test_contents_are_put_in_order(self) -> None:
        contents = Contents()
        contents.include(entry(number) for number in range(COUNT, 0, -1))
        work = self.slices.call(contents.finish)
        turns = 0
        while not work.called:
            self.turn()
            turns += 1
        self.assertEqual(
            [one.name for one in contents.entries.in_order()], [f"{number:06d}" for number in range(1, COUNT + 1)]
        )
        self.assertGreaterEqual(turns, 2 * COUNT // MOST)
