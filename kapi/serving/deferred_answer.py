"""An answer that does not come at once, and ends at its deadline with 504 (upstream: ``server/filters/timeout.go``).

Every write goes this way, so it drives the coroutine itself, which is cheaper than ``Deferred.fromCoroutine``.  It resumes the
coroutine when the awaited Deferred fires, measures the time of its work, and reports the outcome once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from kapi.machinery import status
from kapi.process.driver import advance, failure_of
from kapi.process.shares import Flow
from kapi.process.slices import Slices, Suspended
from kapi.process.timers import Deadlines
from kapi.process.turn import Turn
from kapi.request.context import RequestContext
from kapi.request.response import Response

READS = frozenset(["GET", "HEAD", "OPTIONS"])
TIMEOUT_MESSAGE = "request did not complete within the allotted timeout"
#: called once with the answer or the failure
Answered = Callable[[RequestContext, "Response | Failure | None"], None]


class DeferredAnswer:
    """Runs a coroutine that could not answer at once.

    ``coroutine`` has stopped at ``first``, a Deferred.  If ``first`` is Suspended, its first step is still under way and
    ``coroutine`` is None.  At the deadline ``answered`` gets a Timeout.  A computation without visible effects then ends, and so
    does waiting for another server.  Anything else continues in the background, so that a write that has reached the store is
    completed.  With ``turn`` the coroutine resumes when it is the turn of its flow; with ``slices`` it holds the reactor for
    one slice at a time.
    """

    __slots__ = (
        "_answered", "_awaited", "_coroutine", "_ctx", "_deadlines", "_failure", "_deadline_slot", "_slices", "_turn",
        "computing", "flow",
    )  # fmt: skip

    def __init__(
        self,
        ctx: RequestContext,
        coroutine: Coroutine[Deferred[object], object, Response] | None,
        first: Deferred[object] | Suspended,
        answered: Answered,
        deadlines: Deadlines,
        turn: Turn | None = None,
        slices: Slices | None = None,
    ) -> None:
        self._failure: Failure | None = None
        self.flow: Flow | None = None  # known once the request is classified
        self._turn = turn
        self._slices = slices
        self._ctx = ctx
        self._coroutine = coroutine
        self._answered: Answered | None = answered
        self._deadlines: Deadlines | None = None
        self.computing = False  # suspended between two slices
        if ctx.deadline:
            self._deadlines = deadlines
            self._deadline_slot = deadlines.add(self, ctx.deadline)
        if isinstance(first, Suspended):
            self._compute(first)
        else:
            self._wait(first)

    @property
    def over(self) -> bool:
        """Whether the outcome was already reported."""
        return self._answered is None

    def client_gone(self) -> None:
        """Ends a read, a request passed on to another server, and a computation without visible effects.

        The rest of a write continues.  The other server decides itself what to do when its client leaves.
        """
        if self._ctx.method in READS or self._ctx.passed_on or self.computing:
            self.cancel()

    def cancel(self) -> None:
        """Cancels the awaited Deferred, or ends the computation at its next checkpoint."""
        if self.computing:
            self._ctx.interrupt = CancelledError()
        else:
            self._awaited.cancel()

    def _wait(self, awaited: Deferred[object]) -> None:
        self._ctx.pause()
        self._awaited = awaited
        awaited.addBoth(self._continue)

    def _continue(self, result: object) -> object:
        """The awaited Deferred has fired."""
        failure = self._failure = failure_of(result)
        flow = self._ctx.flow
        if flow is None or self._turn is None or flow is self._turn.alone:
            self._resume()
        else:
            self._turn.run(self._resume, flow)
        return result if failure is None else None

    def _resume(self) -> None:
        """Resumes the coroutine now."""
        ctx, slices = self._ctx, self._slices
        ctx.resume()
        failure, self._failure = self._failure, None
        # after the commit of a small write only its answer is left to make, which is too short for a slice
        if slices is None or (ctx.committed and not ctx.engaged):
            self._handle(self._step(failure))
            return
        outcome = slices.run(self._step, failure, ctx)
        if isinstance(outcome, Suspended):
            self._compute(outcome)
        else:
            self._handle(outcome)

    def _step(self, failure: Failure | None) -> Response | Failure | Deferred[object]:
        assert self._coroutine is not None
        return advance(self._coroutine, failure)

    def _handle(self, outcome: Any) -> None:
        if isinstance(outcome, Deferred):
            self._wait(outcome)
        elif type(outcome) is tuple:
            self._coroutine, awaited = outcome
            self._wait(awaited)
        else:
            self._answer(outcome)

    # -- suspended

    def _compute(self, suspended: Suspended) -> None:
        assert self._slices is not None
        self._ctx.pause()
        self.computing = True
        self.flow = self._ctx.flow
        self._slices.wait(suspended, self)

    def resumed(self) -> None:
        """The next slice begins."""
        self._ctx.resume()

    def suspended(self) -> None:
        """A slice is used up."""
        self._ctx.pause()

    def finished(self, result: object) -> None:
        """The computation has come to its end."""
        self.computing = False
        self._handle(result)

    def expire(self) -> None:
        """The deadline has come."""
        self._deadlines = None
        self._ctx.interrupt = late = status.timeout(TIMEOUT_MESSAGE)
        self._answer(Failure(late))
        if self._ctx.passed_on and not self.computing:
            self._awaited.cancel()

    def _answer(self, outcome: Response | Failure | None) -> None:
        answered, self._answered = self._answered, None
        if answered is None:  # too late
            if isinstance(outcome, Response):
                outcome.drop()
            return
        if self._deadlines is not None:
            self._deadlines.remove(self, self._deadline_slot)
            self._deadlines = None
        answered(self._ctx, outcome)
