"""The events of a turn go to as many watchers as fit into it, and to the others in the next turns: in order, all and once."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from kapi.watchcache import fan_out
from kapi.watchcache.event import BOOKMARK, Batch, CacheEvent, WatchEvent
from tests.watchcache.cache_case import CacheTest, Client


class FanOut(CacheTest):
    def setUp(self) -> None:
        super().setUp()
        for name, value in (("_TURN_SECONDS", -1.0), ("_WATCHES_AT_ONCE", 1)):  # one watcher a turn
            patching = patch.object(fan_out, name, value)
            patching.start()
            self.addCleanup(patching.stop)
        self.clients = [self.watch(0) for _ in range(3)] + [self.watch(0, namespace="ns") for _ in range(3)]

    def one_turn(self) -> None:
        """What is scheduled in it is for the next."""
        calls, self.clock.calls = self.clock.calls, []
        for call in calls:
            call.called = 1
            call.func(*call.args, **call.kw)

    def told(self, client: Client) -> list[str]:
        return [
            event.entry.name
            for batch in client.batches
            for event in batch.events
            if event.entry is not None and event.type != BOOKMARK
        ]

    def reached(self) -> list[int]:
        return [len(self.told(client)) for client in self.clients]

    def test_others_have_their_turns_in_between(self) -> None:
        self.create("a")
        reached = []
        for _ in range(6):
            self.one_turn()
            reached.append(sum(self.reached()))
        self.assertEqual(reached, [1, 2, 3, 4, 5, 6])

    def test_small_events_go_to_some_at_a_time(self) -> None:
        with patch.object(fan_out, "_WATCHES_AT_ONCE", 2):
            self.create("a")
            self.one_turn()
            self.assertEqual(sum(self.reached()), 2)
            with patch.object(fan_out, "_SMALL_BYTES", 10):
                self.turn()
                self.create("b")
                self.one_turn()
                self.assertEqual(sum(self.reached()), 7)

    def test_what_comes_meanwhile_comes_behind(self) -> None:
        self.create("a")
        self.one_turn()
        self.create("b")
        self.assertTrue(self.caches.behind())
        late = self.watch(None)
        self.turn()
        self.create("c")
        self.turn()
        for client in self.clients:
            self.assertEqual(self.told(client), ["a", "b", "c"])
        self.assertEqual(self.told(late), ["c"])
        self.assertEqual(self.caches.behind(), "")

    def test_who_has_ended_is_told_nothing(self) -> None:
        self.create("a")
        self.one_turn()
        gone = self.clients[1]
        gone.watch.stop()
        self.turn()
        self.assertEqual(self.reached(), [1, 0, 1, 1, 1, 1])

    def test_a_bookmark_does_not_overtake(self) -> None:
        marked = [self.watch(0, bookmarks=True) for _ in range(3)]
        for client in marked:
            client.batches.clear()
        self.clock.rightNow += 61
        self.create("a")
        self.one_turn()
        self.caches.tick()
        for client in marked:
            seen: list[Any] = [event.type for batch in client.batches for event in batch.events]
            self.assertIn(seen, ([], ["ADDED"], ["ADDED", BOOKMARK]))
        self.turn()
        self.assertEqual([self.told(client) for client in marked], [["a"]] * 3)

    def test_a_bookmark_does_not_overtake_what_came_while_others_were_served(self) -> None:
        """The second is still to be handed out when the first has reached everybody: who goes on from there would lose it."""
        marked = self.watch(0, bookmarks=True)
        self.create("a")
        self.one_turn()
        self.create("b")
        self.clock.rightNow += 61
        with patch.object(fan_out, "_TURN_SECONDS", 60.0):
            self.caches.tick()
        self.turn()
        seen = [event.type for batch in marked.batches for event in batch.events]
        self.assertEqual(seen, ["ADDED", "ADDED"])

    def test_who_writes_more_than_can_be_handed_out_waits(self) -> None:
        with patch.object(fan_out, "_MAX_HELD_EVENTS", 3):
            for number in range(6):
                self.create(f"n{number}")
                self.one_turn()
            self.assertGreaterEqual(min(self.reached()), 4)
        self.turn()
        self.assertEqual(self.reached(), [6] * 6)

    def test_the_end_of_the_server_is_behind_everything(self) -> None:
        self.create("a")
        self.one_turn()
        self.create("b")
        self.run_async(self.caches.stop())
        self.assertEqual(self.reached(), [2] * 6)

    def test_a_selection_that_fails_ends_and_the_others_go_on(self) -> None:
        """Whose events are lost has to know: a watch without an end would be silent about them for ever."""
        everybody = self.clients[0].watch
        failing = [Batch, MemoryError("of the first selection")]

        def batch(events: list[WatchEvent]) -> Batch:
            problem = failing.pop()
            if isinstance(problem, Exception):
                raise problem
            failing.append(problem)
            return Batch(events)

        with patch.object(fan_out, "Batch", batch):
            self.create("a")
            self.turn()
        self.assertEqual(self.reached(), [0, 0, 0, 1, 1, 1])
        self.assertTrue(everybody.ended)
        self.assertEqual([client.watch.ended for client in self.clients], [True] * 3 + [False] * 3)
        self.create("b")
        self.turn()
        self.assertEqual(self.reached(), [0, 0, 0, 2, 2, 2])
        self.assertEqual(len(self.flushLoggedErrors(MemoryError)), 1)

    def test_observers_get_what_concerns_them_until_they_are_removed(self) -> None:
        removed: list[Any] = []

        class Named:
            def __init__(self, *names: str) -> None:
                self.names, self.seen = names, list[list[str]]()

            def concerns(self, event: CacheEvent) -> bool:
                return event.entry.name in self.names

            def changed(self, events: Any) -> None:
                self.seen.append([event.entry.name for _, event in events])
                while removed:
                    caches.ignore(removed.pop())

        caches, observers = self.caches, [Named("b"), Named("a", "c"), Named("c")]
        for each in observers:
            caches.observe(each)  # type: ignore[arg-type]
        self.create("a")
        self.turn()
        self.assertEqual([each.seen for each in observers], [[], [["a"]], []])
        removed.append(observers[2])
        self.create("b")
        self.create("c")
        self.turn()
        self.create("c2")
        self.turn()
        self.assertEqual([each.seen for each in observers], [[["b"]], [["a"], ["c"]], []])

    def test_an_observer_that_fails_twice_costs_the_others_nothing(self) -> None:
        class Broken:
            def concerns(self, event: CacheEvent) -> bool:
                return True

            def changed(self, events: Any) -> None:
                raise ValueError("changed")

            def loaded(self, caches: Any) -> None:
                raise ValueError("loaded")

        class Sound(Broken):
            seen: list[str] = []

            def changed(self, events: Any) -> None:
                self.seen.extend(event.entry.name for _, event in events)

        self.caches.observe(Broken())
        self.caches.observe(Sound())
        self.create("a")
        self.turn()
        self.create("b")
        self.turn()
        self.assertEqual(Sound.seen, ["a", "b"])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 4)
