"""Answers that do not come at once."""

from __future__ import annotations

import gc
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.status import NotFound, Timeout
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.server.waiting import Waiting
from tests.filters.requests import request


class Answers(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.ctx = request()
        self.outcomes: list[Any] = []

    def answered(self, ctx: RequestContext, outcome: Any) -> None:
        self.assertIs(ctx, self.ctx)
        self.outcomes.append(outcome)

    def wait(self, coroutine: Any) -> Waiting:
        return Waiting(self.ctx, coroutine, coroutine.send(None), self.answered, self.clock)

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
        try:
            waiting: Deferred[None] = Deferred()

            async def work(waiting: Deferred[None]) -> Response:
                await waiting
                return Response(200)

            self.wait(work(waiting))
            waiting.callback(None)
            del waiting
            self.assertEqual([thing for thing in gc.get_objects() if isinstance(thing, Waiting)], [])
        finally:
            gc.enable()
