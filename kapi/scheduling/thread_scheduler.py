"""Shares the thread's time by priority and fairness, from the first byte read to the last one written.

All requests run on one thread.  Much of a request's cost arises before it asks for a seat (decrypting, parsing, authenticating)
and after it got one (when the store has replied, and for the answer).  So while several flows compete, each piece of work waits
here for its turn: a connection that can be read or written, a request that can continue.  Its time is measured and counted for
its flow.

The work of reading a connection counts for a flow of its last requests.  A new connection has none yet: it counts for a flow
of its host, in a level for new connections.
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
TURN_BUDGET = 0.003  # seconds of work in one turn of the reactor; a lower value means more turns, and each has a cost
_ALONE_SECONDS = 0.05  # if only one flow was served for so long, it is taken to be alone
_LONG_TURN_BUDGETS = 5.0  # how many budgets a turn may then take: longer turns cost less
NEW_CONNECTIONS_WEIGHT = 60.0  # of connections without a request yet; other levels' weights are their seats
_SHARED_SECONDS = 0.2  # for so long after the last change of flows the thread counts as shared
_MAX_FLOWS = 4  # remembered for one connection


class ThreadScheduler:
    """Decides which flow's work runs next.

    ``timer`` measures the work in seconds: not the thread's own clock, which costs a system call each time.  ``budget`` is the
    seconds of work in one turn of the reactor.  ``shared_seconds``: see ``shared``.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        *,
        timer: Callable[[], float] = perf_counter,
        budget: float = TURN_BUDGET,
        shared_seconds: float = _SHARED_SECONDS,
    ) -> None:
        self._reactor = reactor
        self._timer = timer
        self._budget = budget
        self._shared_seconds = shared_seconds
        self._shares = Shares()
        self._new_connections = Level("new connections", NEW_CONNECTIONS_WEIGHT)
        self._hosts: WeakValueDictionary[str, Flow] = WeakValueDictionary()
        self._last: Flow | None = None  # the flow of the latest request
        self._shared_until = 0.0  # reactor seconds
        self._working_for: Flow | None = None  # whose work runs now
        self._since = 0.0  # by the timer
        self._turn_end = 0.0  # by the timer: when the current turn should end
        self._in_turn = False
        self._used = 0.0  # seconds used in this turn of the reactor, without the piece that is under way
        self._scheduled = False
        self._served: Flow | None = None  # the flow that was served last
        self._alone_from = 0.0  # reactor seconds
        self._turn_limit = budget  # seconds that this turn of the reactor may take

    # -- whether anybody competes

    def note_request(self, flow: Flow) -> None:
        """Notes that a request of ``flow`` has come."""
        if flow is not self._last:
            if self._last is not None:
                self._shared_until = self._reactor.seconds() + self._shared_seconds
            self._last = flow

    def shared(self) -> bool:
        """Whether more than one flow had requests recently.  While there is only one, nothing waits and nothing is measured."""
        return bool(self._reactor.seconds() < self._shared_until or self._shares)

    def new_connection_flow(self, host: str) -> Flow:
        """The flow that counts the work of a new connection from ``host``."""
        flow = self._hosts.get(host)
        if flow is None:
            flow = self._hosts[host] = Flow(self._new_connections)
        return flow

    @staticmethod
    def with_flow(flows: tuple[Flow, ...], flow: Flow) -> tuple[Flow, ...]:
        """``flows``, those of a connection's last requests, with ``flow`` as the latest."""
        others = [other for other in flows if other is not flow and other.level.name != "new connections"]
        return (flow, *others[: _MAX_FLOWS - 1])

    def first(self, flows: Sequence[Flow]) -> Flow:
        """The flow that is served before the others."""
        first = flows[0]
        if len(flows) > 1:
            for flow in flows:
                self._shares.wake(flow)
                if self._shares.before(flow, first):
                    first = flow
        return first

    # -- waiting for a turn

    def busy(self) -> bool:
        """Whether new work has to wait for its turn."""
        return bool(self._shares) or self._used > self._turn_limit

    def wait(self, worker: Worker) -> None:
        """Queues ``worker``, which takes its turn when its flow is next."""
        assert worker.flow is not None
        self._shares.add(worker, worker.flow)
        self._schedule()

    def run(self, worker: Worker) -> None:
        """Like ``wait``, but at once when none waits or the current work is of the same flow."""
        flow = worker.flow
        assert flow is not None
        if self._working_for is flow:
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

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._serve)

    def _serve(self) -> None:
        """Runs waiting work in order until the budget is used up; at least one piece."""
        self._scheduled = False
        self._used = 0.0
        self._turn_limit = self._budget * (_LONG_TURN_BUDGETS if self._reactor.seconds() > self._alone_from else 1.0)
        shares = self._shares
        while shares:
            worker, flow = shares.take()
            self._take(worker, flow)
            if self._used > self._turn_limit:
                break
        if shares:
            self._schedule()

    def _take(self, worker: Worker, flow: Flow) -> None:
        before = self.begin_turn(flow)
        try:
            worker.take_turn()
        except Exception:
            log.failure("what waited for its turn has failed")
        finally:
            self.end_turn(before)

    def begin_turn(self, flow: Flow) -> Flow | None:
        """Like ``begin``, and starts a turn of ``flow``; ``end_turn`` follows."""
        before = self.begin(flow)
        if before is None:
            if (
                flow is not self._served or flow.level is self._new_connections
            ):  # TLS handshakes cost no less when done together
                self._served = flow
                self._alone_from = self._reactor.seconds() + _ALONE_SECONDS
                self._turn_limit = self._budget
            self._in_turn = True
            self._turn_end = self._since + self._budget
        return before

    def end_turn(self, before: Flow | None) -> None:
        if before is None:
            self._in_turn = False
        self.end(before)

    # -- which flow the work counts for

    def begin(self, flow: Flow) -> Flow | None:
        """Counts the work from now on for ``flow``.  Returns the flow it counted for before, to be passed to ``end``."""
        before = self._working_for
        if before is None:
            self._since = self._timer()
        else:
            self._count(before)
        self._shares.wake(flow)
        self._working_for = flow
        return before

    def end(self, before: Flow | None) -> None:
        if self._working_for is not None:
            self._count(self._working_for)
        self._working_for = before

    def switch(self, flow: Flow) -> bool:
        """Counts the current work for ``flow``, which is known only now.  Returns whether another flow should go first."""
        before = self._working_for
        if before is None or before is flow:
            return False
        self._count(before)
        self._shares.wake(flow)
        self._working_for = flow
        return self._shares.ahead_of(flow)

    def over(self) -> bool:
        """Whether the current turn has used up its time."""
        return self._in_turn and self._timer() > self._turn_end

    def late(self) -> bool:
        """Whether a request that comes now has to wait: its connection's turn is used up, or there is none and others wait."""
        return self.over() if self._in_turn else self.busy()

    def charge(self, flow: Flow, seconds: float) -> None:
        """Counts ``seconds`` of work for ``flow`` that were not measured here."""
        self._shares.charge(flow, seconds)

    def _count(self, flow: Flow) -> None:
        now = self._timer()
        took = now - self._since
        self._since = now
        self._used += took
        self._shares.charge(flow, took)


class _Pause:
    """A request that waits for a turn in the middle of its work."""

    __slots__ = ("flow", "over")

    def __init__(self, flow: Flow) -> None:
        self.flow: Flow | None = flow
        self.over: Deferred[None] = Deferred()

    def take_turn(self) -> None:
        if not self.over.called:
            self.over.callback(None)
