"""The thread's time, shared by priority and fairness: whose work is next, from the first byte read to the last one written.

All requests run on one thread, and much of what one costs is spent before a seat is asked for (on decrypting, parsing,
authenticating) and after it was given (when the store has answered, and on the answer).  So while several flows compete, each
piece of work waits here for its turn: a connection that can be read or written, a request that can go on.  What it takes is
measured, and counts for the flow it is done for.

A connection is read for one of the flows its last requests were of; a new one for its host's, of a level of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from weakref import WeakValueDictionary

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.request.flow import Flow, Level, Worker
from kapi.scheduling.shares import Shares

log = Logger()
BUDGET = 0.003  # seconds of work in one turn of the reactor: less makes more turns, of which each costs
_ALONE_SECONDS = 0.05  # seconds after which a flow that nobody else was served with is taken to be alone for now
_LONG_TURN_BUDGETS = 5.0  # what a turn may take then, in budgets: more that is done together costs less
NEWCOMERS = 60.0  # the weight of connections that have not made a request yet, next to the levels' seats
_SHARED_SECONDS = 0.2  # seconds for which the thread stays shared after the last change from one flow to another
_MAX_FLOWS = 4  # that a connection is read for


class ThreadScheduler:
    """``timer`` gives the seconds of the work; what the clock of the thread itself says would cost a system call each time."""

    def __init__(
        self,
        reactor: IReactorTime,
        *,
        timer: Callable[[], float] = perf_counter,
        budget: float = BUDGET,
        memory: float = _SHARED_SECONDS,
    ) -> None:
        self._reactor = reactor
        self._timer = timer
        self._budget = budget
        self._memory = memory
        self._shares = Shares()
        self._newcomers = Level("newcomers", NEWCOMERS)
        self._hosts: WeakValueDictionary[str, Flow] = WeakValueDictionary()
        self._last: Flow | None = None  # the flow that was met last
        self._until = 0.0  # reactor seconds
        self._for: Flow | None = None  # for whom is worked now
        self._since = 0.0  # by the timer
        self._until_over = 0.0  # by the timer: when the turn that is under way has lasted long enough
        self._in_turn = False
        self._used = 0.0  # seconds of this turn of the reactor, without the piece that is under way
        self._scheduled = False
        self._served: Flow | None = None  # the flow that was served last
        self._alone_from = 0.0  # reactor seconds
        self._most = budget  # seconds of a turn of the reactor now

    # -- whether anybody competes

    def met(self, flow: Flow) -> None:
        """There is a request of this flow."""
        if flow is not self._last:
            if self._last is not None:
                self._until = self._reactor.seconds() + self._memory
            self._last = flow

    def shared(self) -> bool:
        """Whether more than one flow was here of late: while there is one alone, nothing waits and nothing is measured."""
        return bool(self._reactor.seconds() < self._until or self._shares)

    def newcomer(self, host: str) -> Flow:
        """The flow that a new connection of ``host`` is read for."""
        flow = self._hosts.get(host)
        if flow is None:
            flow = self._hosts[host] = Flow(self._newcomers)
        return flow

    @staticmethod
    def remember(flows: tuple[Flow, ...], flow: Flow) -> tuple[Flow, ...]:
        """The flows of a connection after a request of ``flow``."""
        others = [other for other in flows if other is not flow and other.level.name != "newcomers"]
        return (flow, *others[: _MAX_FLOWS - 1])

    def first(self, flows: Sequence[Flow]) -> Flow:
        """The one whose turn comes first."""
        first = flows[0]
        if len(flows) > 1:
            for flow in flows:
                self._shares.wake(flow)
                if self._shares.before(flow, first):
                    first = flow
        return first

    # -- waiting for a turn

    def busy(self) -> bool:
        """Whether what comes now has to wait."""
        return bool(self._shares) or self._used > self._most

    def wait(self, worker: Worker) -> None:
        """``worker`` has something to do for its flow, and takes its turn later."""
        assert worker.flow is not None
        self._shares.add(worker, worker.flow)
        self._come_back()

    def run(self, worker: Worker) -> None:
        """The same, at once if nobody waits, or if its flow's turn it is."""
        flow = worker.flow
        assert flow is not None
        if self._for is flow:
            worker.take_turn()
        elif self.busy():
            self.wait(worker)
        else:
            self._take(worker, flow)

    def turn(self, flow: Flow) -> Deferred[None]:
        """Fires when ``flow`` has its next turn."""
        pause = _Pause(flow)
        self.wait(pause)
        return pause.over

    def _come_back(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._serve)

    def _serve(self) -> None:
        """One after the other until the budget is used up; at least one."""
        self._scheduled = False
        self._used = 0.0
        self._most = self._budget * (_LONG_TURN_BUDGETS if self._reactor.seconds() > self._alone_from else 1.0)
        shares = self._shares
        while shares:
            worker, flow = shares.take()
            self._take(worker, flow)
            if self._used > self._most:
                break
        if shares:
            self._come_back()

    def _take(self, worker: Worker, flow: Flow) -> None:
        before = self.begin_turn(flow)
        try:
            worker.take_turn()
        except Exception:
            log.failure("what waited for its turn has failed")
        finally:
            self.end_turn(before)

    def begin_turn(self, flow: Flow) -> Flow | None:
        """As ``begin``, for one whose turn it is; ``end_turn`` follows."""
        before = self.begin(flow)
        if before is None:
            if flow is not self._served or flow.level is self._newcomers:  # handshakes done together cost no less
                self._served = flow
                self._alone_from = self._reactor.seconds() + _ALONE_SECONDS
                self._most = self._budget
            self._in_turn = True
            self._until_over = self._since + self._budget
        return before

    def end_turn(self, before: Flow | None) -> None:
        if before is None:
            self._in_turn = False
        self.end(before)

    # -- for whom is worked

    def begin(self, flow: Flow) -> Flow | None:
        """From now on the work is done for ``flow``; gives for whom it was before, for ``end``."""
        before = self._for
        if before is None:
            self._since = self._timer()
        else:
            self._count(before)
        self._shares.wake(flow)
        self._for = flow
        return before

    def end(self, before: Flow | None) -> None:
        if self._for is not None:
            self._count(self._for)
        self._for = before

    def switch(self, flow: Flow) -> bool:
        """It has turned out that the work that is under way is done for ``flow``; whether others are to go before it."""
        before = self._for
        if before is None or before is flow:
            return False
        self._count(before)
        self._shares.wake(flow)
        self._for = flow
        return self._shares.ahead_of(flow)

    def over(self) -> bool:
        """Whether the turn that is under way has lasted long enough."""
        return self._in_turn and self._timer() > self._until_over

    def late(self) -> bool:
        """Whether a request that comes now has to wait: it comes late in its connection's turn, or in none."""
        return self.over() if self._in_turn else self.busy()

    def charge(self, flow: Flow, seconds: float) -> None:
        """Work that others do for ``flow``."""
        self._shares.charge(flow, seconds)

    def _count(self, flow: Flow) -> None:
        now = self._timer()
        took = now - self._since
        self._since = now
        self._used += took
        self._shares.charge(flow, took)


class _Pause:
    """A request in the middle of its work."""

    __slots__ = ("flow", "over")

    def __init__(self, flow: Flow) -> None:
        self.flow: Flow | None = flow
        self.over: Deferred[None] = Deferred()

    def take_turn(self) -> None:
        if not self.over.called:
            self.over.callback(None)
