"""Requests that wait too long are told at their deadlines, however many there are."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.process.timers import Deadlines


class Waits:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.told: list[float] = []

    def expire(self) -> None:
        self.told.append(self.clock.seconds())


class DeadlinesCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(100)
        self.deadlines = Deadlines(self.clock)

    def test_each_is_told_once_and_never_early(self) -> None:
        wanted = [100.0, 100.1, 100.125, 101.0, 101.0, 134.0, 160.05]
        waits = [Waits(self.clock) for _ in wanted]
        for wait, deadline in zip(waits, wanted, strict=True):
            self.deadlines.add(wait, deadline)
        self.clock.pump([0.025] * 2500)
        for wait, deadline in zip(waits, wanted, strict=True):
            self.assertEqual(len(wait.told), 1)
            self.assertTrue(deadline <= wait.told[0] + 1e-6 <= deadline + 0.15, (deadline, wait.told))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_whole_seconds_are_exact(self) -> None:
        wait = Waits(self.clock)
        self.deadlines.add(wait, 134.0)
        self.clock.advance(34)
        self.assertEqual(wait.told, [134.0])

    def test_one_whose_deadline_has_passed_is_told_in_the_next_turn(self) -> None:
        wait = Waits(self.clock)
        self.deadlines.add(wait, 90.0)
        self.assertEqual(wait.told, [])
        self.clock.advance(0)
        self.assertEqual(wait.told, [100.0])

    def test_who_has_ended_is_not_told_and_leaves_nothing(self) -> None:
        ended, waits = Waits(self.clock), Waits(self.clock)
        number = self.deadlines.add(ended, 110.0)
        other = self.deadlines.add(waits, 110.0)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1, "they have one call of the reactor in common")
        self.deadlines.remove(ended, number)
        self.clock.advance(10)
        self.assertEqual((ended.told, waits.told), ([], [110.0]))
        self.deadlines.remove(waits, other)  # too late, as when it ends in consequence
        self.deadlines.remove(ended, self.deadlines.add(ended, 120.0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_that_ends_when_another_is_told_is_no_trouble(self) -> None:
        waits = Waits(self.clock)

        class Ends(Waits):
            def expire(this) -> None:  # noqa: N805
                self.deadlines.remove(waits, number)

        self.deadlines.add(Ends(self.clock), 110.0)
        number = self.deadlines.add(waits, 110.0)
        self.clock.advance(10)
        self.assertLessEqual(len(waits.told), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_whom_the_end_of_another_one_ends_is_not_told(self) -> None:
        second, third = Waits(self.clock), Waits(self.clock)

        first = Waits(self.clock)
        first.expire = lambda: self.deadlines.remove(second, number)  # type: ignore[method-assign]
        number = self.deadlines.add(first, 110.0)
        for wait in (second, third):
            self.deadlines.add(wait, 110.0)
        self.clock.advance(10)
        self.assertEqual((second.told, third.told), ([], [110.0]))
        self.assertEqual(self.clock.getDelayedCalls(), [])
