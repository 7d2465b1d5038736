"""Lists at an earlier revision that are made in slices, while the history changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from kapi.machinery import sorting
from kapi.process.slices import Slices
from kapi.store.errors import Compacted
from kapi.watchcache import sorted_entries
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import Entry
from tests.process.turns import EVERY, Turns
from tests.watchcache.cache_case import CacheTest

COUNT = 40
_MAX_TURNS = 200


class FormerLists(CacheTest):
    """Each checkpoint suspends; the history is read and the keys are sorted a few at a time."""

    step = Turns.turn

    def setUp(self) -> None:
        super().setUp()
        self.slices = Slices(self.clock, length=EVERY)
        for what in (
            patch("kapi.watchcache.history.MAX_BATCH_ENTRIES", 8),
            patch.object(sorted_entries, "_MAX_KEYS_AT_ONCE", 4),
            patch.object(sorting, "_PIECE_ITEMS", 4),
        ):
            what.start()
            self.addCleanup(what.stop)
        self.revisions = {f"p{number:02d}": self.create(f"p{number:02d}", node="a") for number in range(COUNT)}
        self.then = self.caches.revision
        self.was = [entry.data for entry in self.pods.list()[0]]
        for name, revision in list(self.revisions.items())[: COUNT // 2]:
            self.revisions[name] = self.update(name, revision, node="b")

    def begin(self) -> Deferred[list[Entry]]:
        return self.slices.call(self.pods.list_at, self.then)

    def finish(self, *working: Deferred[Any]) -> None:
        for _ in range(_MAX_TURNS):
            self.step()
        self.assertTrue(all(work.called for work in working))

    def after_some(self, turns: int, happen: Callable[[], object]) -> Deferred[list[Entry]]:
        """A list during which something happens."""
        work = self.begin()
        for _ in range(turns):
            self.step()
        self.assertFalse(work.called)
        happen()
        self.finish(work)
        return work

    def turns(self) -> int:
        """How many turns a list takes."""
        work, turns = self.begin(), 0
        while not work.called:
            self.step()
            turns += 1
        self.pods.drop_snapshots()
        return turns

    def write(self) -> None:
        """Changes an object that has not changed since."""
        name = f"p{COUNT - 1}"
        self.revisions[name] = self.update(name, self.revisions[name], node="c")

    def write_and_list(self) -> None:
        self.write()
        self.pods.list_at(self.then)

    def test_they_are_of_their_moment_whatever_is_written_meanwhile(self) -> None:
        self.assertGreater(self.each_turn(self.write), 10)

    def test_another_list_of_the_same_moment_is_made_meanwhile(self) -> None:
        self.assertGreater(self.each_turn(self.write_and_list), 10)

    def each_turn(self, happen: Callable[[], object]) -> int:
        """Whatever happens, in whichever turn, the list is as it was or gone (410).  Returns how often it is as it was."""
        whole = 0
        for turns in range(self.turns()):
            with self.subTest(turns=turns):
                result: list[Any] = []
                self.after_some(turns, happen).addBoth(result.append)
                if isinstance(result[0], list):
                    self.assertEqual([entry.data for entry in result[0]], self.was)
                    whole += 1
                else:
                    self.assertIsInstance(result[0].value, Compacted)
            self.doCleanups()
            self.setUp()
        return whole

    def test_the_history_is_dropped_by_a_fault(self) -> None:
        self.each_turn(lambda: self.pods.forget_history())

    def test_the_history_becomes_too_old(self) -> None:
        self.each_turn(lambda: self.pods.trim(self.caches.revision))

    def test_the_contents_are_loaded_anew(self) -> None:
        def load() -> None:
            contents = Contents()
            for entry in self.pods.list()[0][: COUNT * 3 // 4]:
                contents.add(entry)
            self.pods.load(contents.finish())

        self.each_turn(load)
