"""What comes is done in its order: what takes long in slices, and the rest waits for it."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.checkpoint import checkpoint
from kapi.process.in_order import InOrder
from kapi.process.slices import Slices
from tests.turns import one_turn


class Ordered(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.order = InOrder(Slices(self.clock, length=-1.0).call, lambda function: self.clock.callLater(0, function))
        self.found: list[Any] = []

    def note(self, what: Any, checkpoints: int = 0) -> None:
        for _ in range(checkpoints):
            checkpoint()
        self.found.append(what)
        if what == "bad":
            raise RuntimeError("a bug")

    def test_what_comes_while_something_takes_long_waits(self) -> None:
        self.order.add(self.note, "long", 5, long=True)
        self.order.add(self.note, "short", long=False)
        one_turn(self.clock)
        self.order.add(self.note, "other", long=False)
        self.assertEqual((self.found, len(self.order)), ([], 3))
        for _ in range(20):
            one_turn(self.clock)
        self.assertEqual((self.found, len(self.order)), (["long", "short", "other"], 0))

    def test_no_two_that_take_long_are_done_in_one_turn(self) -> None:
        for number in range(4):
            self.order.add(self.note, number, 1, long=True)
        counts = []
        for _ in range(10):
            before = len(self.found)
            one_turn(self.clock)
            counts.append(len(self.found) - before)
        self.assertEqual((self.found, max(counts)), ([0, 1, 2, 3], 1))

    def test_an_error_is_of_one_alone(self) -> None:
        for what in ("bad", "good"):
            self.order.add(self.note, what, long=True)
        self.order.add(self.note, "bad", long=False)
        self.order.add(self.note, "better", long=False)
        self.clock.advance(0)
        self.assertEqual(self.found, ["bad", "good", "bad", "better"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)

    def test_who_waits_for_what_is_there_does_not_wait_for_more(self) -> None:
        self.assertIsNone(self.order.done())
        self.order.add(self.note, "long", 3, long=True)
        done = self.order.done()
        assert done is not None
        done.addCallback(lambda _: self.note("done"))
        self.order.add(self.note, "late", 30, long=True)
        for _ in range(10):
            one_turn(self.clock)
        self.successResultOf(done)
        self.clock.advance(0)
        self.assertEqual(self.found, ["long", "done", "late"])

    def test_what_has_begun_is_done_when_the_rest_is_let_go(self) -> None:
        self.order.add(self.note, "begun", 3, long=True)
        for number in range(3):
            self.order.add(self.note, number, long=True)
        one_turn(self.clock)
        self.assertEqual(self.order.clear(), 3)
        self.order.add(self.note, "after", long=True)
        self.clock.advance(0)
        self.assertEqual(self.found, ["begun", "after"])
