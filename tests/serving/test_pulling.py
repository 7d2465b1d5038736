"""The parts of answers over HTTP/1.1: at once what fits into a turn of the reactor, the rest later, and only what is taken."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.process.shares import Flow, Level
from kapi.process.turn import Turn
from kapi.serving.http1 import Pull

PART = 0.001  # seconds that a part takes


class Answer:
    """A producer of so many parts, each of which takes a millisecond."""

    def __init__(self, case: Pulling, name: str, parts: int, most: int = 1000) -> None:
        self.case, self.name, self.left, self.most = case, name, parts, most
        self.aborted = self.stopped = False
        self.flow = Flow(case.level)
        self.pull = Pull(self, self, case.budget)  # type: ignore[arg-type]  # its transport, too

    def resumeProducing(self) -> None:
        self.case.now += PART
        self.case.sent.append(self.name)
        self.left -= 1
        self.most -= 1
        if not self.most:
            self.pull.pauseProducing()
        if not self.left:
            self.pull.forget()

    def stopProducing(self) -> None:
        self.stopped = True

    def abortConnection(self) -> None:
        self.aborted = True


class Pulling(SynchronousTestCase):
    def setUp(self) -> None:
        self.now = 0.0
        self.sent: list[str] = []
        self.clock = Clock()
        self.budget = Turn(self.clock, seconds=0.01, timer=lambda: self.now)
        self.level = Level("workload-low", 100)

    def begin(self, name: str, parts: int, most: int = 1000) -> Answer:
        answer = Answer(self, name, parts, most)
        answer.pull.resumeProducing()
        return answer

    def turn(self) -> None:
        """One of the reactor: what is asked for meanwhile comes in the next one."""
        for call in list(self.clock.getDelayedCalls()):
            run: Any = call.func  # type: ignore[attr-defined]
            call.cancel()
            run()

    def finish(self) -> None:
        while self.clock.getDelayedCalls():
            self.turn()

    def test_a_short_answer_is_sent_at_once(self) -> None:
        self.begin("a", 4)
        self.assertEqual(self.sent, ["a"] * 4)
        self.turn()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_rest_of_a_long_one_is_sent_in_later_turns_and_flows_share_them(self) -> None:
        self.begin("a", 60)
        self.begin("b", 60)
        self.assertIn(self.sent.count("a"), (10, 11))
        self.assertEqual(self.sent.count("b"), 0, "the turn is over")
        self.turn()
        self.assertTrue(9 < len(self.sent) < 25, self.sent)
        self.finish()
        self.assertEqual((self.sent.count("a"), self.sent.count("b")), (60, 60))
        half = self.sent[:60]
        self.assertTrue(20 <= half.count("a") <= 40, half)

    def test_answers_that_begin_together_are_not_all_sent_at_once(self) -> None:
        for number in range(100):
            self.begin(str(number), 2)
        self.assertLess(len(self.sent), 30)
        self.finish()
        self.assertEqual(len(self.sent), 200)
        self.begin("later", 2)
        self.assertEqual(len(self.sent), 202)

    def test_nothing_is_sent_to_who_does_not_take_it(self) -> None:
        answer = self.begin("a", 10, most=2)
        self.turn()
        self.assertEqual(self.sent, ["a"] * 2)
        answer.most = 3
        answer.pull.resumeProducing()
        self.assertEqual(self.sent, ["a"] * 5)

    def test_who_pauses_while_waiting_is_passed_over_and_resumed_once(self) -> None:
        answer = self.begin("a", 12)
        first = len(self.sent)
        answer.pull.pauseProducing()
        answer.pull.resumeProducing()
        answer.pull.pauseProducing()
        self.turn()
        self.assertEqual((len(self.sent), self.clock.getDelayedCalls()), (first, []))
        answer.pull.resumeProducing()
        self.finish()
        self.assertEqual(len(self.sent), 12)

    def test_who_has_gone_is_asked_for_nothing(self) -> None:
        answer = self.begin("a", 30)
        first = len(self.sent)
        answer.pull.stopProducing()
        self.turn()
        answer.pull.resumeProducing()
        self.assertEqual((len(self.sent), answer.stopped), (first, True))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_fault_ends_that_answer_alone(self) -> None:
        broken, other = self.begin("a", 30), self.begin("b", 12)
        broken.resumeProducing = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
        self.finish()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual((broken.aborted, other.aborted, self.sent.count("b")), (True, False, 12))
