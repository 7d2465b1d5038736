"""Entries stay in order through changes of all kinds, whatever the parts are that they are kept in."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from kapi.watchcache import sorted_entries
from kapi.watchcache.entry import ByteBudget, Entry, Scope
from kapi.watchcache.sorted_entries import Range, SortedEntries

_KEPT = ByteBudget(1000, Entry.forget_object)
_SCOPE = Scope(_KEPT, _KEPT, {}, True)
_NAMESPACES = 7


def entry(number: int, revision: int = 1) -> Entry:
    namespace, name = f"n{number % _NAMESPACES}", f"{number:06d}"
    return Entry(_SCOPE, f"{namespace}/{name}", namespace, name, revision, b"x" * (number % 50))


class Changed(SynchronousTestCase):
    """Against a dictionary that is sorted anew."""

    def setUp(self) -> None:
        self.model: dict[str, Entry] = {}
        self.entries = SortedEntries({}, (), 0)
        self.random = random.Random(11)

    def begin(self, count: int) -> None:
        self.model = {one.key: one for one in map(entry, range(count))}
        there = [self.model[key] for key in sorted(self.model)]
        self.entries = SortedEntries(dict(self.model), there, sum(len(one.data) for one in there))

    def test_many_are_taken_in_parts_of_bounded_length(self) -> None:
        parts: list[int] = []
        self.patch(sorted_entries, "checkpoint", lambda: parts.append(1))
        self.begin(50_000)
        self.assertGreaterEqual(len(parts), 50)
        self.entries._sorted._check()  # type: ignore[attr-defined]  # its own test of what it is made of
        self.check()
        self.put(50_001)
        self.remove(1)
        self.check()

    def put(self, number: int, revision: int = 1) -> None:
        one = entry(number, revision)
        self.assertIs(self.entries.put(one), self.model.get(one.key))
        self.model[one.key] = one

    def remove(self, number: int) -> None:
        key = entry(number).key
        self.assertIs(self.entries.remove(key), self.model.pop(key, None))

    def check(self) -> None:
        there = [self.model[key] for key in sorted(self.model)]
        self.assertEqual(self.entries.in_order(), there)
        self.assertEqual(self.entries.by_key, self.model)
        self.assertEqual(self.entries.size, sum(len(one.data) for one in there))
        starts = ["", "n3/000200", "n9", "n0/", "\U0010ffff"]
        ranges = [Range(), *map(Range, starts), Range("n5", "n2"), Range("n2/0001", "n2/0003")]
        ranges += [Range.of(f"n{number}", start) for number in range(_NAMESPACES + 1) for start in ("", "000100", "9")]
        for place in ranges:
            within = [one for one in there if one.key in place]
            self.assertEqual(list(self.entries.within(place)), within)
            self.assertEqual(self.entries.all_within(place), within)
            self.assertEqual(self.entries.count(place), len(within))
            for limit in (1, 3, 700):
                self.assertEqual(self.entries.first(place, limit), (within[:limit], max(0, len(within) - limit)))

    def test_made_one_by_one_in_any_order(self) -> None:
        numbers = list(range(3000))
        self.random.shuffle(numbers)
        for number in numbers:
            self.put(number)
        self.check()

    def test_made_in_order_and_in_the_opposite_order(self) -> None:
        for number in [*range(1500), *range(3000, 1500, -1)]:
            self.put(number)
        self.check()

    def test_changed_at_random(self) -> None:
        self.begin(2000)
        for revision in range(2, 6000):
            number = self.random.randrange(2500)
            if self.random.random() < 0.5:
                self.put(number, revision)
            else:
                self.remove(number)
        self.check()

    def test_most_are_removed_and_others_come(self) -> None:
        self.begin(4000)
        for number in range(4000):
            if number % 500:
                self.remove(number)
        self.check()
        for number in range(4000, 5000):
            self.put(number)
        self.check()

    def test_all_are_removed_and_one_comes(self) -> None:
        self.begin(1000)
        for number in self.random.sample(range(1000), 1000):
            self.remove(number)
        self.check()
        self.remove(7)
        self.put(7)
        self.check()

    def test_who_has_a_list_keeps_what_was_there(self) -> None:
        self.begin(1000)
        before = self.entries.in_order()
        copy = list(before)
        self.put(1, 2)
        self.remove(2)
        self.put(5000)
        self.assertEqual(before, copy)
        self.check()
