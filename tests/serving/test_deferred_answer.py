"""Answers that do not come at once."""

from __future__ import annotations

import gc
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.status import NotFound, Timeout
from kapi.process.shares import Flow, Level
from kapi.process.timers import Deadlines
from kapi.process.turn import Turn
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.run import DeferredAnswer
from tests.filters.requests import request


class Answers(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.ctx = request()
        self.outcomes: list[Any] = []

    def answered(self, ctx: RequestContext, outcome: Any) -> None:
        self.assertIs(ctx, self.ctx)
        self.outcomes.append(outcome)

    def wait(self, coroutine: Any) -> DeferredAnswer:
        return DeferredAnswer(self.ctx, coroutine, coroutine.send(None), self.answered, Deadlines(self.clock))

    def test_results_and_failures_reach_the_coroutine(self) -> None:
        first: Deferred[str] = Deferred()
        second: Deferred[str] = Deferred()
        third: Deferred[str] = Deferred()
        seen: list[str] = []

        async def work() -> Response:
            seen.append(await first)
            try:
                await second
            except NotFound as error:
                seen.append(error.message)
            await third
            return Response(201)

        self.wait(work())
        first.callback("one")
        second.errback(NotFound("two"))
        self.assertEqual((seen, self.outcomes), (["one", "two"], []))
        third.callback("")
        self.assertEqual([outcome.status for outcome in self.outcomes], [201])

    def test_what_the_coroutine_raises_is_the_outcome(self) -> None:
        waiting: Deferred[None] = Deferred()

        async def work() -> Response:
            await waiting
            raise NotFound("gone")

        self.wait(work())
        waiting.callback(None)
        (outcome,) = self.outcomes
        self.assertIsInstance(outcome, Failure)
        self.assertEqual(outcome.value.message, "gone")

    def test_it_goes_on_when_it_is_its_flows_turn(self) -> None:
        order: list[str] = []
        worked = [0.0]
        turn = Turn(self.clock, seconds=0.001, timer=lambda: worked[0])
        level = Level("workload-low", 100)
        noisy, quiet = Flow(level), Flow(level)

        def begin(name: str, flow: Flow | None) -> tuple[Deferred[str], Deferred[str]]:
            first: Deferred[str] = Deferred()
            second: Deferred[str] = Deferred()
            ctx = request()
            ctx.flow = flow

            async def work() -> Response:
                order.append(name + await first)
                worked[0] += 0.002
                try:
                    await second
                except NotFound as error:
                    order.append(name + error.message)
                    worked[0] += 0.002
                return Response(200)

            coroutine = work()
            DeferredAnswer(
                ctx,
                coroutine,
                coroutine.send(None),
                lambda ctx, outcome: self.outcomes.append(outcome),
                Deadlines(self.clock),
                turn,
            )
            return first, second

        waiting = [begin(f"noisy{number}", noisy) for number in range(3)]
        waiting += [begin("quiet", quiet), begin("unknown", None)]
        for first, _ in waiting:
            first.callback("-a")
        self.assertEqual(order, ["noisy0-a", "unknown-a"], "nobody waited; nobody knows whose turn it would be")
        for _ in range(4):
            self.clock.advance(0)
        self.assertEqual(order[2:], ["noisy1-a", "quiet-a", "noisy2-a"], "the one that came late is not the last")
        order.clear()
        for _, second in waiting[:4]:
            second.errback(NotFound("-b"))
        self.assertEqual(order, ["noisy0-b"], "then the turn is over")
        for _ in range(4):
            self.clock.advance(0)
        self.assertEqual(order, ["noisy0-b", "noisy1-b", "quiet-b", "noisy2-b"])
        self.assertEqual([outcome.status for outcome in self.outcomes], [200] * 4)

    def test_the_deadline_holds_while_it_waits_for_its_turn(self) -> None:
        self.ctx.deadline = self.clock.seconds() + 5
        self.ctx.flow = Flow(Level("workload-low"))
        waiting: Deferred[None] = Deferred()
        ended: list[bool] = []

        async def work() -> Response:
            await waiting
            ended.append(True)
            return Response(200)

        coroutine = work()
        turn = Turn(other := Clock())
        turn.wait(lambda: None, self.ctx.flow)
        DeferredAnswer(self.ctx, coroutine, coroutine.send(None), self.answered, Deadlines(self.clock), turn)
        waiting.callback(None)
        self.clock.advance(5)
        self.assertIsInstance(self.outcomes[0].value, Timeout)
        self.assertEqual(ended, [])
        other.advance(0)
        self.assertEqual((ended, len(self.outcomes)), ([True], 1))

    def test_deferreds_that_have_fired_already_do_not_pile_up_on_the_stack(self) -> None:
        waiting: Deferred[None] = Deferred()

        async def work() -> Response:
            await waiting
            for number in range(5000):
                done: Deferred[int] = Deferred()
                done.callback(number)
                assert await done == number
            return Response(200)

        self.wait(work())
        waiting.callback(None)
        self.assertEqual(len(self.outcomes), 1)

    def test_a_request_ends_at_its_deadline_and_goes_on_unseen(self) -> None:
        self.ctx.deadline = 10.0
        late: Deferred[None] = Deferred()
        seen: list[str] = []

        async def work() -> Response:
            await late
            seen.append("written")
            return Response(200)

        self.wait(work())
        self.clock.advance(9.9)
        self.assertEqual(self.outcomes, [])
        self.clock.advance(0.2)
        self.assertIsInstance(self.outcomes[0].value, Timeout)
        late.callback(None)
        self.assertEqual((seen, len(self.outcomes)), (["written"], 1))

    def test_what_another_server_does_not_answer_is_given_up(self) -> None:
        for leave in (lambda waiting: self.clock.advance(10.1), lambda waiting: waiting.client_gone()):
            self.ctx.method, self.ctx.deadline, self.ctx.passed_on = "POST", self.clock.seconds() + 10.0, True
            given_up: list[Any] = []
            answer: Deferred[Response] = Deferred(given_up.append)

            async def work(answer: Deferred[Response] = answer) -> Response:
                return await answer

            leave(self.wait(work()))
            self.assertEqual(given_up, [answer])
        late, gone = self.outcomes
        late.trap(Timeout)
        gone.trap(CancelledError)

    def test_an_answer_in_time_leaves_no_timer_behind(self) -> None:
        self.ctx.deadline = 10.0
        answer: Deferred[Response] = Deferred()

        async def work() -> Response:
            return await answer

        self.wait(work())
        response = Response(200)
        answer.callback(response)
        self.assertEqual((self.outcomes, self.clock.getDelayedCalls()), ([response], []))

    def test_giving_up_gives_up_what_is_waited_for(self) -> None:
        given_up: list[Any] = []
        waiting: Deferred[None] = Deferred(given_up.append)

        async def work() -> Response:
            await waiting
            return Response(200)

        self.wait(work()).cancel()
        self.assertEqual(given_up, [waiting])
        self.outcomes[0].trap(CancelledError)

    def test_nothing_is_left_to_the_garbage_collector(self) -> None:
        self.ctx.deadline = 10.0
        gc.collect()
        gc.disable()
        others = [thing for thing in gc.get_objects() if isinstance(thing, DeferredAnswer)]  # what other tests hold
        try:
            waiting: Deferred[None] = Deferred()

            async def work(waiting: Deferred[None]) -> Response:
                await waiting
                return Response(200)

            self.wait(work(waiting))
            waiting.callback(None)
            del waiting
            self.assertEqual([thing for thing in gc.get_objects() if isinstance(thing, DeferredAnswer)], others)
        finally:
            gc.enable()
