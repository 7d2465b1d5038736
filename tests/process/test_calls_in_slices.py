"""Functions that are called in slices, outside of a request."""

from __future__ import annotations

import threading
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from kapi.machinery import checkpoint as checkpoint_module
from kapi.machinery.checkpoint import checkpoint, steps
from kapi.process import slices as slices_module
from kapi.process.slices import Slices
from kapi.process.turn import Turn
from tests.process.turns import Turns


class Calls(Turns):
    def test_a_call_that_meets_no_checkpoint_has_its_result_at_once(self) -> None:
        self.assertEqual(self.successResultOf(self.slices.call(self.work, "a", 0)), "a")
        self.assertEqual(self.clock.calls, [])

    def test_a_long_call_goes_on_in_later_turns(self) -> None:
        done = self.slices.call(self.work, "a", 2)
        self.assertEqual(self.order, ["a0"])
        self.assertNoResult(done)
        self.turn()
        self.assertEqual(self.order, ["a0", "a1"])
        self.turn()
        self.assertEqual(self.successResultOf(done), "a")
        self.assertEqual(self.clock.calls, [])

    def test_several_take_turns(self) -> None:
        done = [self.slices.call(self.work, name, 3) for name in "abc"]
        for _ in range(20):
            self.turn()
        self.assertEqual(self.order, ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"])
        self.assertEqual([self.successResultOf(one) for one in done], ["a", "b", "c"])

    def test_what_it_raises_is_its_failure_and_the_next_is_not_concerned(self) -> None:
        def fail() -> None:
            checkpoint()
            raise ValueError("broken")

        done = self.slices.call(fail)
        self.turn()
        self.failureResultOf(done, ValueError)
        self.assertEqual(self.successResultOf(self.slices.call(self.work, "b", 0)), "b")

    def test_one_that_is_given_up_ends_at_its_next_slice(self) -> None:
        cleaned: list[bool] = []

        def work() -> None:
            try:
                self.work("a", 5)
            finally:
                cleaned.append(True)

        done = self.slices.call(work)
        done.cancel()
        self.failureResultOf(done, CancelledError)
        self.turn()
        self.assertEqual((self.order, cleaned, self.clock.calls), (["a0"], [True], []))

    def test_one_begun_inside_another_returns_to_it(self) -> None:
        inner: list[Deferred[Any]] = []

        def outer() -> str:
            inner.append(self.slices.call(self.work, "inner", 2))
            self.order.append("outer")
            checkpoint()
            return "outer"

        done = self.slices.call(outer)
        self.assertEqual(self.order, ["inner0", "outer"])
        for _ in range(5):
            self.turn()
        self.assertEqual(self.order, ["inner0", "outer", "inner1"])
        self.assertEqual(self.successResultOf(done), "outer")
        self.assertEqual(self.successResultOf(inner[0]), "inner")

    def test_an_owner_that_fails_holds_up_nobody(self) -> None:
        first, second = self.slices.call(self.work, "a", 1), self.slices.call(self.work, "b", 1)

        def fail(_: Any) -> None:
            raise RuntimeError("broken")

        self.patch(first._canceller.__self__, "finished", fail)  # type: ignore[union-attr]
        self.turn()
        self.turn()
        self.assertNoResult(first)
        self.assertEqual(self.successResultOf(second), "b")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_outside_and_on_other_threads_a_checkpoint_does_nothing(self) -> None:
        checkpoint()

        def work() -> str:
            thread = threading.Thread(target=self.work, args=("thread", 2))
            thread.start()
            thread.join()
            return "done"

        self.assertEqual(self.successResultOf(self.slices.call(work)), "done")
        self.assertEqual(self.order, ["thread0", "thread1"])

    def test_a_slice_lasts_its_time_and_a_turn_has_so_many_of_them(self) -> None:
        now = [0.0]
        slices = Slices(self.clock, Turn(self.clock, seconds=0.006, timer=lambda: now[0]), length=0.002)
        worked: dict[int, float] = {}
        for module in (slices_module, checkpoint_module):
            self.patch(module, "perf_counter", lambda: now[0])

        def work(number: int) -> None:
            while True:
                now[0] += 0.0005
                worked[number] = worked.get(number, 0.0) + 0.0005
                checkpoint()

        running = [slices.call(work, number) for number in range(12)]
        self.assertEqual(len(worked), 12, "each has begun")
        worked.clear()
        self.turn()
        self.assertEqual([round(seconds, 4) for seconds in worked.values()], [0.002], "they had this turn, but for one")
        for _ in range(3):
            worked.clear()
            self.turn()
            self.assertIn(len(worked), (3, 4))
            for seconds in worked.values():
                self.assertIn(round(seconds, 4), (0.002, 0.0025))
        for done in running:
            done.cancel()
            self.failureResultOf(done, CancelledError)
        for _ in range(12):
            self.turn()
        self.assertEqual(self.clock.calls, [])

    def test_steps_are_the_items_and_long_walks_have_checkpoints_between_them(self) -> None:
        done = self.slices.call(lambda: list(steps(range(100))))
        turns = 0
        while not done.called:
            self.turn()
            turns += 1
        self.assertEqual((self.successResultOf(done), turns), (list(range(100)), 4))
        self.assertEqual(list(steps(range(100))), list(range(100)), "the same outside")
