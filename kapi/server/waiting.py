"""An answer that does not come at once, and ends at its deadline with 504 (upstream: ``server/filters/timeout.go``).

It does by itself what a chain of Deferreds would do, since every write goes this way: takes the coroutine on whenever what
it waits for has come, notes the time of its work, and tells the outcome once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.response import Response

_TEXT = "request did not complete within the allotted timeout"
#: called once with the answer or the failure
Answered = Callable[[RequestContext, "Response | Failure"], None]


class Waiting:
    """``coroutine`` has stopped at ``first``, a Deferred.

    At the deadline ``answered`` gets a Timeout; what was running goes on unseen, so that a write that has reached the store is
    not torn apart.
    """

    __slots__ = ("_answered", "_awaited", "_coroutine", "_ctx", "_late")

    def __init__(
        self,
        ctx: RequestContext,
        coroutine: Coroutine[Any, Any, Response],
        first: Deferred[Any],
        answered: Answered,
        clock: IReactorTime,
    ) -> None:
        self._ctx = ctx
        self._coroutine = coroutine
        self._answered: Answered | None = answered
        self._late: Any = None
        if ctx.deadline:
            self._late = clock.callLater(max(0.0, ctx.deadline - clock.seconds()), self._expire)
        self._wait(first)

    def cancel(self) -> None:
        """The client has gone: what is waited for is given up."""
        self._awaited.cancel()

    def _wait(self, awaited: Deferred[Any]) -> None:
        self._ctx.pause()
        self._awaited = awaited
        awaited.addBoth(self._go_on)

    def _go_on(self, result: Any) -> None:
        """What was waited for has come: the coroutine takes a result from the Deferred itself; a failure it is given."""
        self._ctx.resume()
        try:
            if isinstance(result, Failure):
                awaited = result.throwExceptionIntoGenerator(self._coroutine)
            else:
                awaited = self._coroutine.send(None)
        except StopIteration as stop:
            self._tell(stop.value)
        except BaseException:
            self._tell(Failure())
        else:
            self._wait(awaited)

    def _expire(self) -> None:
        self._late = None
        self._tell(Failure(status.timeout(_TEXT)))

    def _tell(self, outcome: Response | Failure) -> None:
        answered, self._answered = self._answered, None
        if answered is None:
            return  # too late
        if self._late is not None:
            self._late.cancel()
            self._late = None
        answered(self._ctx, outcome)
