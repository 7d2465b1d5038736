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
from kapi.server.rounds import Rounds

_TEXT = "request did not complete within the allotted timeout"
#: called once with the answer or the failure
Answered = Callable[[RequestContext, "Response | Failure"], None]


class Waiting:
    """``coroutine`` has stopped at ``first``, a Deferred.

    At the deadline ``answered`` gets a Timeout; what was running goes on unseen, so that a write that has reached the store is
    not torn apart.  With ``rounds`` it goes on when it is its flow's turn.
    """

    __slots__ = ("_answered", "_awaited", "_coroutine", "_ctx", "_failure", "_late", "_rounds", "flow")

    def __init__(
        self,
        ctx: RequestContext,
        coroutine: Coroutine[Any, Any, Response],
        first: Deferred[Any],
        answered: Answered,
        clock: IReactorTime,
        rounds: Rounds | None = None,
    ) -> None:
        self._failure: Failure | None = None
        self.flow: int | None = getattr(ctx.http.transport, "flow", None)
        self._rounds = rounds
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
        awaited.addBoth(self._come)

    def _come(self, result: Any) -> Any:
        """What was waited for: the coroutine takes a result from the Deferred itself; a failure it is given."""
        failure = self._failure = result if isinstance(result, Failure) else None
        if self.flow is not None and self._rounds is not None and self._rounds.shared():
            self._rounds.wait(self)
        else:
            self.take_turn()
        return result if failure is None else None

    def take_turn(self) -> None:
        """Goes on."""
        self._ctx.resume()
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                awaited = failure.throwExceptionIntoGenerator(self._coroutine)
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
