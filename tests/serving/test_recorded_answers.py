"""Answers that wait for the audit log: the others leave, and none waits for longer than its request may take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.filters.chain import FilterChain
from kapi.process.timers import Deadlines
from kapi.request.context import RequestContext
from kapi.request.pending import Pending
from kapi.request.response import Parts, Response
from kapi.serving.run import Answer, RecordedAnswers, RequestRunner
from kapi.testing.http import MemoryRequest


class Lazy(Parts):
    size = 500

    def __len__(self) -> int:
        return 1

    def part(self, position: int) -> bytes:
        return b"x" * self.size

    def held(self) -> Iterable[bytes]:
        return (b"z" * 50,)


class Recorded(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.pending = Pending(self.clock.seconds)
        self.left: list[list[int]] = []
        self.seats = 2
        self.recorded: Deferred[bool] = Deferred()
        answers = [self.answer(200, 60.0), self.answer(201, 10.0)]
        self.record(answers)

    def record(self, answers: list[Answer]) -> None:
        RecordedAnswers(answers, self.recorded, self.leave, lambda ctx: Response(504), Deadlines(self.clock))

    def answer(self, code: int, deadline: float, body: object = b"x" * 100) -> Answer:
        ctx = RequestContext(None, "GET", "/", {})  # type: ignore[arg-type]
        ctx.deadline = deadline
        ctx.pending = self.pending
        ctx.release_seats = self.release
        return ctx, Response(code, body)  # type: ignore[arg-type]

    def release(self, ctx: RequestContext) -> None:
        self.seats -= 1

    def leave(self, answers: Sequence[Answer]) -> None:
        self.left.append([response.status for _, response in answers])

    def test_they_leave_together_and_in_order(self) -> None:
        self.assertEqual((self.left, self.seats, self.pending.size), ([], 0, 200))
        self.recorded.callback(True)
        self.assertEqual((self.left, self.pending.size), ([[200, 201]], 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_each_ends_at_its_deadline(self) -> None:
        self.clock.advance(10.2)
        self.assertEqual(self.left, [[504]])
        self.recorded.callback(True)
        self.assertEqual(self.left, [[504], [200]])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_error_of_the_log_is_none_of_the_answers(self) -> None:
        self.recorded.errback(OSError())
        self.assertEqual(self.left, [[200, 201]])
        self.flushLoggedErrors()

    def test_the_bytes_of_a_body_in_parts_count_while_it_waits(self) -> None:
        """Those that are made when they are sent are not there yet."""
        self.recorded.callback(True)
        self.recorded = Deferred()
        for body, size in (([b"x" * 30, b"y" * 40], 70), (Lazy(), 50)):
            self.record([self.answer(200, 60.0, body)])
            self.assertEqual(self.pending.size, size)
            self.recorded.callback(True)
            self.assertEqual(self.pending.size, 0)
            self.recorded = Deferred()


class Log:
    """An audit log that takes its time; each request that is recorded has it."""

    def __init__(self) -> None:
        self.recorded: Deferred[bool] = Deferred()
        self.given: list[int] = []

    def answered(self, *_: object) -> None:
        pass

    def complete(self, events: list[Log]) -> Deferred[bool]:
        self.given.append(len(events))
        return self.recorded


class Together(SynchronousTestCase):
    def test_answers_of_one_turn_wait_for_the_log_only_when_they_are_recorded(self) -> None:
        clock, log, asked = Clock(), Log(), []

        def handler(ctx: RequestContext) -> Response:
            ctx.audit = log if ctx.method == "POST" else None  # type: ignore[assignment]
            return Response(200, b"{}")

        runner = RequestRunner(FilterChain([], handler), clock, gather=True)  # type: ignore[arg-type]
        for method in ("GET", "POST", "PUT", "POST"):
            asked.append(MemoryRequest(method, "/"))
            runner.serve(asked[-1])
        clock.advance(0)
        self.assertEqual([request.finished for request in asked], [True, False, True, False])
        self.assertEqual(log.given, [2])
        log.recorded.callback(True)
        self.assertEqual([request.written for request in asked], [b"{}"] * 4)
