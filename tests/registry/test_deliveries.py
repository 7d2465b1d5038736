"""Followers inside the process get large objects in slices, in order, and one a turn."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from kapi.codecs import json_pieces
from kapi.machinery import checkpoint
from kapi.process.slices import Slices
from kapi.registry import deliveries
from kapi.registry.client import CacheReflector
from kapi.registry.deliveries import Deliveries
from kapi.watchcache import entry
from tests.watchcache.cache_case import CacheTest

LARGE = 2000  # bytes
NODE = "n" * LARGE


class Followed(CacheTest):
    def setUp(self) -> None:
        super().setUp()
        for module, name, value in (
            (entry, "LARGE", LARGE),
            (json_pieces, "LARGE", LARGE),
            (json_pieces, "_PIECE_BYTES", 500),
        ):
            patching = patch.object(module, name, value)
            patching.start()
            self.addCleanup(patching.stop)
        self.caches.call = Slices(self.clock, length=-1.0).call
        self.told: list[tuple[Any, ...]] = []
        self.walks = 0  # checkpoints of the handler
        self.inside: list[bool] = []  # whether it ran in a slice at each of them
        self.deliveries = Deliveries(self.pods, self.note)
        self.deliveries.source = self.subscription = CacheReflector(self.pods, self.deliveries.take)
        self.turn()

    def note(self, kind: str, obj: Any, old: Any) -> None:
        revisions = [None if tree is None else tree["metadata"]["resourceVersion"] for tree in (obj, old)]
        for _ in range(self.walks):
            self.inside.append(checkpoint.running is not None)
            checkpoint.checkpoint()
        self.told.append((kind, obj["metadata"]["name"], *revisions))
        if obj["metadata"]["name"] == "bad":
            raise RuntimeError("a bug")

    def one_turn(self) -> None:
        """What is scheduled in it is for the next."""
        calls, self.clock.calls = self.clock.calls, []
        for call in calls:
            call.called = 1
            call.func(*call.args, **call.kw)

    def test_small_objects_come_with_the_turn(self) -> None:
        first = self.create("a")
        self.one_turn()
        self.assertEqual(self.told, [("ADDED", "a", "1", None)])
        self.update("a", first)
        self.one_turn()
        self.assertEqual(self.told[1:], [("MODIFIED", "a", "2", "1")])
        self.assertEqual(self.caches.behind(), "")

    def test_a_large_one_comes_when_it_is_decoded_and_others_wait_for_it(self) -> None:
        first = self.create("large", node=NODE)
        self.create("b")
        self.one_turn()
        self.assertEqual(self.told, [])
        self.assertIn("being decoded", self.caches.behind())
        self.create("c")
        second = self.update("large", first, node=NODE + "x")
        self.turn()
        expected = [("ADDED", "large", "1", None), ("ADDED", "b", "2", None), ("ADDED", "c", "3", None)]
        self.assertEqual(self.told, [*expected, ("MODIFIED", "large", "4", "1")])
        self.delete("large", second, node=NODE)
        self.turn()
        self.assertEqual(self.told[4:], [("DELETED", "large", "5", "4")])
        self.assertEqual(self.caches.behind(), "")

    def test_no_two_large_ones_are_handled_in_one_turn(self) -> None:
        for number in range(4):
            self.create(f"l{number}", node=NODE)
        handled = []
        for _ in range(200):
            before = len(self.told)
            self.one_turn()
            handled.append(len(self.told) - before)
        self.assertEqual((sum(handled), max(handled)), (4, 1))

    def test_a_handler_that_fails_gets_the_next(self) -> None:
        self.create("bad", node=NODE)
        self.create("b", node=NODE)
        self.turn()
        self.assertEqual([name for _, name, *_ in self.told], ["bad", "b"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_what_cannot_be_read_is_gone_around(self) -> None:
        key, head = "core/pods/ns/x", b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"'
        tail = b'","name":"x","namespace":"ns"},"spec":{"n":1e999,"nodeName":"%s"}}' % NODE.encode()
        self.run_async(self.store.create(key, head, tail))
        self.create("b", node=NODE)
        self.turn()
        self.assertEqual([name for _, name, *_ in self.told][-1:], ["b"])
        self.assertEqual(self.pods.unreadable_in(), ["ns/x"])
        self.assertEqual(self.caches.behind(), "")
        self.assertEqual(self.flushLoggedErrors(), [], "the cache has named it")

    def test_nothing_comes_after_the_end(self) -> None:
        self.create("a", node=NODE)
        self.create("b", node=NODE)
        self.one_turn()
        self.subscription.stop()
        self.deliveries.stop()
        self.turn()
        self.assertEqual((self.told, self.caches.behind()), ([], ""))

    def test_who_walks_a_large_object_lets_others_work_and_gets_the_next_afterwards(self) -> None:
        self.walks = 3
        first = self.create("large", node=NODE)
        found = self.pods.get("ns", "large")
        assert found is not None and found.object  # somebody has decoded it
        self.one_turn()
        self.create("b")
        self.update("large", first, node="small")
        turns = 0
        while len(self.told) < 3:
            self.assertLess(turns, 50)
            turns += 1
            self.one_turn()
        self.assertGreater(turns, 5)
        names = [(kind, name) for kind, name, *_ in self.told]
        self.assertEqual(names, [("ADDED", "large"), ("ADDED", "b"), ("MODIFIED", "large")])
        self.assertEqual(self.inside, [True] * 9)
        self.assertEqual(self.caches.behind(), "")

    def test_nothing_comes_after_the_end_of_who_is_suspended(self) -> None:
        self.walks = 3
        self.create("a", node=NODE)
        self.create("b")
        while not self.inside:
            self.one_turn()
        self.subscription.stop()
        self.deliveries.stop()
        self.turn()
        self.assertEqual(([name for _, name, *_ in self.told], self.caches.behind()), (["a"], ""))

    def test_what_waits_is_bounded(self) -> None:
        """The watch waits, which has bounds of its own."""
        most = 0
        with patch.object(deliveries, "_MAX_WAITING_EVENTS", 3):
            for number in range(20):
                self.create(f"l{number}", node=NODE)
                self.caches._fan_out.flush()
                most = max(most, self.pods.undecoded)
            self.assertIn("not been sent", self.caches.behind())
            self.turn()
        self.assertEqual(most, 3)
        self.assertEqual([name for _, name, *_ in self.told], [f"l{number}" for number in range(20)])

    def test_the_watch_goes_on_when_half_of_what_waits_has_come(self) -> None:
        resumed: list[int] = []
        resume = self.subscription.resume

        def noted() -> None:
            resumed.append(len(self.told))
            resume()

        self.subscription.resume = noted  # type: ignore[method-assign]
        with patch.object(deliveries, "_MAX_WAITING_EVENTS", 20):
            for number in range(20):
                self.create(f"l{number}", node=NODE)
                self.caches._fan_out.flush()
            self.turn()
        self.assertEqual(len(self.told), 20)
        (when,) = resumed
        self.assertIn(when, (10, 11), "the next turn, which may have brought another")

    def test_a_watch_that_was_held_back_too_long_begins_anew(self) -> None:
        with patch.object(deliveries, "_MAX_WAITING_EVENTS", 3), patch.object(type(self.pods), "max_queued_events", 4):
            for number in range(20):
                self.create(f"l{number}", node=NODE)
                self.caches._fan_out.flush()
            self.delete("l19", 20, node=NODE)
            self.turn()
        known = {name for kind, name, *_ in self.told}
        self.assertLessEqual({f"l{number}" for number in range(19)}, known)
        self.assertEqual(self.caches.behind(), "")
        self.create("later")
        self.turn()
        self.assertEqual(self.told[-1][:2], ("ADDED", "later"))
