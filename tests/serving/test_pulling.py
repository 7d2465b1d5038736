"""The parts of answers over HTTP/1.1: at once what fits into some milliseconds, then in turns, and only what clients take."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.request.flow import Flow, Level
from kapi.scheduling.thread_scheduler import ThreadScheduler
from kapi.serving.pulling import Pull, Pulls

PART = 0.001  # seconds that a part takes


class Answer:
    """A producer of so many parts, each of which takes a millisecond."""

    def __init__(self, case: Pulling, name: str, parts: int, most: int = 1000) -> None:
        self.case, self.name, self.left, self.most = case, name, parts, most
        self.aborted = self.stopped = False
        self.flows: tuple[Flow, ...] = ()
        self.pull = Pull(self, self, case.pulls)  # type: ignore[arg-type]  # its transport, too

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
        self.pulls = Pulls(self.clock, lambda: self.now)

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
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_rest_of_long_ones_is_sent_in_turns_of_the_reactor(self) -> None:
        self.begin("a", 30)
        first = len(self.sent)
        self.assertTrue(4 < first < 8, first)
        self.begin("b", 30)
        self.assertEqual(self.sent, ["a"] * first)
        self.turn()
        turn = self.sent[first:]
        self.assertTrue(9 < len(turn) < 13, turn)
        self.assertEqual(turn[:4], ["a", "b", "a", "b"])
        self.finish()
        self.assertEqual((self.sent.count("a"), self.sent.count("b")), (30, 30))

    def test_answers_that_begin_together_are_not_all_sent_at_once(self) -> None:
        for number in range(100):
            self.begin(str(number), 2)
        self.assertLess(len(self.sent), 30)
        self.finish()
        self.assertEqual(len(self.sent), 200)
        self.now += 1.0
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
        self.now += 1.0
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

    def test_while_flows_compete_the_scheduler_says_whose_turn_it_is(self) -> None:
        scheduler = ThreadScheduler(self.clock, timer=lambda: self.now)
        level = Level("workload-low", 100)
        flows = Flow(level), Flow(level)
        for flow in flows:
            scheduler.note_request(flow)
        answers: list[Any] = []
        for name, flow in zip("ab", flows, strict=True):
            answer = Answer(self, name, 30)
            answer.flows, answer.pull.scheduler = (flow,), scheduler
            answers.append(answer)
            answer.pull.resumeProducing()
        self.turn()
        self.assertLess(len(self.sent), 20)
        self.finish()
        self.assertEqual((self.sent.count("a"), self.sent.count("b")), (30, 30))
        half = self.sent[:30]
        self.assertTrue(10 <= half.count("a") <= 20, half)
