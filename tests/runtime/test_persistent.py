"""Attempts that are repeated until they succeed, and what a server that stops tries once."""

from __future__ import annotations

import gc
from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, execute
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.status import generic
from kapi.runtime.persistent import Persistent, release
from kapi.runtime.sliced import run_by


class Stopping(SynchronousTestCase):
    def test_a_stop_in_the_middle_of_a_computation_leaves_no_error(self) -> None:
        """An error that nothing handles is logged when it is freed: at the end of the process Python may not survive that."""

        begun: Deferred[None] = Deferred()
        steps = 0

        def in_slices(function: Callable[..., object], *arguments: object) -> Deferred[object]:
            nonlocal steps
            steps += 1
            if steps == 1:
                return execute(function, *arguments)
            return Deferred(lambda computing: computing.errback(Failure(CancelledError())))

        async def attempt() -> None:
            await begun

        reactor = Clock()
        run_by(reactor, in_slices)  # type: ignore[arg-type]
        persistent = Persistent("it", attempt, reactor)
        persistent.begin()
        begun.callback(None)
        persistent.stop()
        del persistent
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])


class Releasing(SynchronousTestCase):
    def setUp(self) -> None:
        self.said: list[str] = []

        def heard(event: dict[str, object]) -> None:
            if event.get("what") == "it":
                self.said.append(str(event["error"]))

        globalLogPublisher.addObserver(heard)
        self.addCleanup(globalLogPublisher.removeObserver, heard)
        self.reactor = Clock()
        self.answer: Deferred[None] = Deferred()

        async def write() -> None:
            await self.answer

        self.stopped = Deferred.fromCoroutine(release("it", write(), self.reactor))

    def test_a_server_does_not_wait_for_a_store_that_does_not_answer(self) -> None:
        self.reactor.advance(1.9)
        self.assertNoResult(self.stopped)
        self.reactor.advance(0.2)
        self.successResultOf(self.stopped)
        self.assertEqual(self.said, ["no answer in 2 s"])

    def test_a_refusal_is_logged(self) -> None:
        self.answer.errback(generic("no"))
        self.successResultOf(self.stopped)
        self.assertEqual(self.said, ["no"])

    def test_an_error_of_the_program_is_not_hidden(self) -> None:
        self.answer.errback(ZeroDivisionError())
        self.failureResultOf(self.stopped, ZeroDivisionError)

    def test_nothing_is_said_of_a_write_that_succeeds(self) -> None:
        self.answer.callback(None)
        self.successResultOf(self.stopped)
        self.assertEqual((self.said, self.reactor.getDelayedCalls()), ([], []))
