"""Long computations in slices: fairness, deadlines, and that nothing but the time at which things happen is different."""

from __future__ import annotations

import threading
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.filters.chain import FilterChain
from kapi.machinery import checkpoint as checkpoint_module
from kapi.machinery.checkpoint import LARGE, Interrupted, checkpoint, commit, engage, in_slices, steps
from kapi.machinery.status import Timeout
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.scheduling import slices as slices_module
from kapi.scheduling.shares import Flow, Level
from kapi.scheduling.slices import Slices
from kapi.scheduling.thread_scheduler import ThreadScheduler
from kapi.server.runner import RequestRunner
from kapi.testing.http import MemoryRequest

EVERY = -1.0  # a length with which each checkpoint suspends


class Turns(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.slices = Slices(self.clock, length=EVERY)
        self.order: list[Any] = []

    def turn(self) -> None:
        """One turn of the reactor: what is scheduled in it is for the next."""
        for call in [call for call in self.clock.calls if call.time <= self.clock.rightNow]:
            if call.active():
                self.clock.calls.remove(call)
                call.called = 1
                call.func()

    def work(self, name: str, times: int) -> str:
        for number in range(times):
            self.order.append(f"{name}{number}")
            checkpoint()
        return name


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

        owner = next(iter(self.slices._ready.values()))[0].owner
        self.patch(owner, "finished", fail)
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
        slices = Slices(self.clock, length=0.002, turn=0.006)
        worked: dict[int, float] = {}
        now = [0.0]
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


class Requests(Turns):
    def setUp(self) -> None:
        super().setUp()
        self.answers: list[int] = []
        self.deadline = 0.0

    def ask(self, handler: Any, method: str = "POST") -> MemoryRequest:
        def limit(ctx: RequestContext) -> None:
            ctx.deadline = self.deadline
            engage()
            ctx.finishers.append(lambda ctx, code: self.answers.append(code))

        request = MemoryRequest(method, "/")
        RequestRunner(FilterChain([limit], handler), self.clock, slices=self.slices).serve(request)
        return request

    async def answer(self, ctx: RequestContext) -> Response:
        self.work("a", 3)
        return Response(200, b"answer")

    def test_a_write_computes_in_slices_and_is_answered(self) -> None:
        request = self.ask(self.answer)
        self.assertFalse(request.finished)
        for _ in range(3):
            self.turn()
        self.assertEqual((request.code, request.written), (200, b"answer"))

    def test_a_small_one_is_not_suspended(self) -> None:
        request = MemoryRequest("POST", "/")
        RequestRunner(FilterChain([], self.answer), self.clock, slices=self.slices).serve(request)
        self.assertEqual((request.finished, self.order), (True, ["a0", "a1", "a2"]))

    def test_a_read_does_when_it_says_so(self) -> None:
        self.assertTrue(self.ask(self.answer, "GET").finished)

        async def long(ctx: RequestContext) -> Response:
            await in_slices
            return await self.answer(ctx)

        request = self.ask(long, "GET")
        self.assertFalse(request.finished)
        for _ in range(3):
            self.turn()
        self.assertEqual(request.written, b"answer")

    def test_a_read_whose_selectors_are_long_does_so_from_the_beginning(self) -> None:
        for length, finished in ((100, True), (LARGE, False)):
            request = MemoryRequest("GET", f"/?labelSelector={'a' * length}")
            RequestRunner(FilterChain([], self.answer), self.clock, slices=self.slices).serve(request)
            self.assertEqual(request.finished, finished)
        for _ in range(3):
            self.turn()
        self.assertEqual(request.written, b"answer")

    def test_saying_so_means_nothing_where_there_are_no_slices(self) -> None:
        async def long() -> int:
            await in_slices
            return 1

        self.assertEqual(self.successResultOf(Deferred.fromCoroutine(long())), 1)

    def test_it_goes_on_in_slices_after_it_has_waited(self) -> None:
        waiting: Deferred[int] = Deferred()

        async def later(ctx: RequestContext) -> Response:
            code = await waiting
            self.work("a", 2)
            return Response(code)

        request = self.ask(later)
        waiting.callback(202)
        self.assertEqual((self.order, request.finished), (["a0"], False))
        for _ in range(2):
            self.turn()
        self.assertEqual(request.code, 202)

    def test_the_deadline_ends_the_computation(self) -> None:
        self.deadline = 5.0

        async def endless(ctx: RequestContext) -> Response:
            while True:
                self.work("a", 1)

        request = self.ask(endless)
        self.clock.rightNow = 4.0
        self.turn()
        self.assertFalse(request.finished)
        self.clock.rightNow = 5.0
        self.turn()
        self.assertEqual((request.code, request.json["reason"]), (504, "Timeout"))
        for _ in range(3):  # one that took over a millisecond of a busy machine is followed by a look at who else waits
            self.turn()
        self.assertEqual((self.clock.calls, self.answers), ([], [504]))

    def test_after_the_commit_nothing_ends_it(self) -> None:
        self.deadline = 5.0

        async def write(ctx: RequestContext) -> Response:
            commit()
            self.work("a", 3)
            return Response(200)

        request = self.ask(write)
        self.clock.advance(6)
        for _ in range(5):
            self.clock.advance(0)
        self.assertEqual((request.code, self.order, self.answers), (504, ["a0", "a1", "a2"], [504]))

    def test_what_has_waited_beyond_the_deadline_does_not_begin_to_write(self) -> None:
        self.deadline = 5.0
        waiting: Deferred[None] = Deferred()

        async def write(ctx: RequestContext) -> Response:
            await waiting
            commit()
            self.order.append("written")
            return Response(200)

        self.ask(write)
        self.clock.advance(6)
        waiting.callback(None)
        self.assertEqual((self.order, self.answers), ([], [504]))

    def test_no_broad_except_takes_the_end_for_a_failure_of_its_own(self) -> None:
        self.deadline = 5.0

        async def tolerant(ctx: RequestContext) -> Response:
            try:
                self.work("a", 3)
            except Exception:
                self.order.append("caught")
            return Response(200)

        self.ask(tolerant)
        self.clock.advance(6)
        self.clock.advance(0)
        self.assertEqual((self.order, self.answers), (["a0", "a1"], [504]))

    def test_a_client_that_goes_ends_the_computation(self) -> None:
        request = self.ask(self.answer)
        request.disconnect()
        for _ in range(5):
            self.turn()
        self.assertEqual((self.order, self.answers), (["a0"], [499]))

    def test_one_that_goes_after_the_commit_does_not(self) -> None:
        async def write(ctx: RequestContext) -> Response:
            commit()
            return await self.answer(ctx)

        request = self.ask(write)
        request.disconnect()
        for _ in range(5):
            self.turn()
        self.assertEqual((self.order, self.answers), (["a0", "a1", "a2"], [200]))

    def test_flows_share(self) -> None:
        noisy, quiet = (Flow(Level("workload-low")) for _ in range(2))

        def ask(name: str, flow: Flow) -> None:
            async def handler(ctx: RequestContext) -> Response:
                ctx.flow = flow
                engage()
                self.work(name, 3)
                return Response(200)

            request = MemoryRequest("POST", "/")
            RequestRunner(FilterChain([], handler), self.clock, slices=self.slices).serve(request)

        for number in range(5):
            ask(f"noisy{number}-", noisy)
        ask("quiet-", quiet)
        self.order.clear()
        for _ in range(4):
            self.turn()
        self.assertEqual([name for name in self.order if name.startswith("quiet")], ["quiet-1", "quiet-2"])
        while self.clock.calls:
            self.turn()

    def test_while_flows_compete_a_slice_waits_for_its_flows_turn(self) -> None:
        """A long computation is no way around priority and fairness: it shares the thread with what others have to do."""
        worked = [0.0]
        scheduler = self.slices.scheduler = ThreadScheduler(self.clock, timer=lambda: worked[0], budget=0.001)
        level = Level("workload-low")
        long, short = Flow(level), Flow(level)
        order: list[str] = []

        class Short:
            flow: Flow | None = short

            def take_turn(self) -> None:
                order.append("short")
                worked[0] += 0.001

        async def compute(ctx: RequestContext) -> Response:
            ctx.flow = long
            engage()
            for _ in range(20):
                checkpoint()
                order.append("long")
                worked[0] += 0.005
            return Response(200)

        scheduler.met(long)
        scheduler.met(short)
        for _ in range(60):
            scheduler.wait(Short())
        RequestRunner(FilterChain([], compute), self.clock, slices=self.slices).serve(MemoryRequest("POST", "/"))
        while self.clock.calls:
            self.turn()
        self.assertEqual(order.count("long"), 20)
        self.assertLessEqual(order[:40].count("long"), 10, "a fifth, and a little ahead at first")
        self.assertGreaterEqual(order[:40].count("long"), 4)

    def test_the_errors_have_their_tracebacks(self) -> None:
        async def broken(ctx: RequestContext) -> Response:
            self.work("a", 1)
            raise ZeroDivisionError

        request = self.ask(broken)
        for _ in range(3):  # the answer is encoded in slices, too
            self.turn()
        self.assertEqual(request.code, 500)
        (failure,) = self.flushLoggedErrors(ZeroDivisionError)
        self.assertIn("broken", failure.getTraceback())


class Ends(SynchronousTestCase):
    def test_the_end_says_why(self) -> None:
        self.assertIsInstance(Interrupted(Timeout("late")).error, Timeout)
        self.assertNotIsInstance(Interrupted(Timeout("late")), Exception)
