"""Attempts that are repeated until they succeed."""

from __future__ import annotations

import gc
from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, execute
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.runtime.persistent import Persistent
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
