"""Long computations in slices: fairness, deadlines, and that nothing but the time at which things happen is different."""

from __future__ import annotations

from gc import collect, get_objects
from typing import Any
from unittest.mock import patch
from weakref import ref

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from kapi.filters.chain import FilterChain
from kapi.machinery import freeing
from kapi.machinery.checkpoint import LARGE, Interrupted, checkpoint, commit, engage, expect_tree, in_slices
from kapi.machinery.status import Timeout
from kapi.process.shares import Flow, Level
from kapi.process.slices import Worker
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.run import RequestRunner
from kapi.testing.http import MemoryRequest
from tests.process.turns import Turns


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

    def test_one_that_has_waited_before_it_says_so_is_suspended(self) -> None:
        """Such as a read that has stood in a queue of priority and fairness, or a small write."""
        for method in ("GET", "POST"):
            waiting: Deferred[int] = Deferred()

            async def later(ctx: RequestContext, waiting: Deferred[int] = waiting) -> Response:
                code = await waiting
                await in_slices
                self.work("a", 2)
                return Response(code)

            request = MemoryRequest(method, "/")
            RequestRunner(FilterChain([], later), self.clock, slices=self.slices).serve(request)
            self.order.clear()
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

    def test_large_trees_of_one_flow_are_made_one_after_the_other(self) -> None:
        """Eight bodies of 2.5 MB at once took 270 MB; other flows and smaller requests do not wait for them."""
        noisy, quiet = (Flow(Level("workload-low")) for _ in range(2))

        def ask(name: str, flow: Flow, size: int, error: Exception | None = None) -> MemoryRequest:
            async def handler(ctx: RequestContext) -> Response:
                ctx.flow = flow
                engage()
                expect_tree(size)
                self.order.append(f"{name} begins")
                self.work(name, 3)
                expect_tree(size)  # the object that it changes is large too
                if error is not None:
                    raise error
                self.order.append(f"{name} ends")
                return Response(200)

            request = MemoryRequest("POST", "/")
            RequestRunner(FilterChain([], handler), self.clock, slices=self.slices).serve(request)
            return request

        large, small = 2_500_000, 200_000
        ask("large1", noisy, large)
        ask("large2", noisy, large, Timeout("it takes too long"))
        ask("large3", noisy, 300_000)
        ask("large4", noisy, large)
        ask("small", noisy, small)
        ask("quiet", quiet, large)
        while self.clock.calls:
            self.turn()
        order = [step for step in self.order if step.endswith("s")]
        of_noisy = [step for step in order if step.startswith("large")]
        ends = {step: number for number, step in enumerate(order)}
        self.assertEqual(of_noisy[:2], ["large1 begins", "large1 ends"])
        self.assertEqual(sorted(of_noisy[2:4]), ["large2 begins", "large3 begins"])  # both fit
        self.assertEqual(of_noisy[4:], ["large3 ends", "large4 begins", "large4 ends"])  # the second one has failed
        self.assertLess(ends["small ends"], ends["large2 begins"])
        self.assertLess(ends["quiet ends"], ends["large2 begins"])

    def test_a_large_tree_waits_until_the_one_before_it_is_freed(self) -> None:
        flow = Flow(Level("workload-low"))
        for busy_turns, seconds in ((3, 0.0), (1000, 0.5)):
            left = [busy_turns]

            def busy(left: list[int] = left) -> bool:
                left[0] -= 1
                return left[0] >= 0

            async def handler(ctx: RequestContext) -> Response:
                ctx.flow = flow
                expect_tree(3_000_000)
                return await self.answer(ctx)

            self.order.clear()
            self.answers.clear()
            with patch.object(freeing, "busy", busy):
                self.ask(handler)
                self.ask(handler)
                begun = self.clock.seconds()
                while len(self.answers) < 1:
                    self.turn()
                self.assertEqual(self.order, ["a0", "a1", "a2"])
                while len(self.answers) < 2:
                    self.clock.advance(0.01)
            self.assertEqual(self.order, ["a0", "a1", "a2"] * 2)
            self.assertGreaterEqual(self.clock.seconds() - begun, seconds)
            self.assertLess(self.clock.seconds() - begun, seconds + 0.2)

    def test_what_waits_to_make_its_tree_ends_at_its_deadline(self) -> None:
        flow = Flow(Level("workload-low"))

        async def handler(ctx: RequestContext) -> Response:
            ctx.flow = flow
            expect_tree(3_000_000)
            return await self.answer(ctx)

        self.ask(handler)
        self.deadline = 5.0
        late = self.ask(handler)
        self.clock.rightNow = 6.0
        while self.clock.calls:
            self.turn()
        self.assertEqual((self.order, self.answers, late.code), (["a0", "a1", "a2"], [504, 200], 504))

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


class Body:
    """What a request has."""


class Workers(Turns):
    """Greenlets of computations that have ended."""

    def bodies(self, count: int) -> list[ref[Body]]:
        """Of so many computations, all of them begun before the first ends."""

        def job(body: Body) -> None:
            engage()
            checkpoint()

        bodies = [Body() for _ in range(count)]
        for body in bodies:
            self.slices.call(job, body)
        return [ref(body) for body in bodies]

    def test_they_keep_nothing_of_them(self) -> None:
        bodies = self.bodies(3)
        while self.clock.calls:
            self.turn()
        collect()
        self.assertEqual([body() for body in bodies], [None] * 3)

    def test_of_many_some_are_kept(self) -> None:
        before = self.workers()
        self.bodies(50)
        self.assertEqual(self.workers() - before, 50)
        while self.clock.calls:
            self.turn()
        self.assertEqual(self.workers() - before, 16)

    def test_they_end_with_the_slices(self) -> None:
        before = self.workers()
        self.bodies(3)
        while self.clock.calls:
            self.turn()
        del self.slices
        self.assertEqual(self.workers() - before, 0)

    @staticmethod
    def workers() -> int:
        collect()
        return sum(isinstance(found, Worker) for found in get_objects())
