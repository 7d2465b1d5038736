"""A turn of the reactor's loop: how long its work may take, and which work comes first when there is more (ADR 19).

All requests run on one thread, and the reactor polls its sockets once a turn.  So a turn is short, and work that does not fit
into it waits for the next turn: reading a connection, continuing a request that has waited, sending the rest of an answer to a
slow client, sending watch events.  The waiting flow that has used the least time is next (``shares``).  Long computations get
one slice a turn, and the time that is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from weakref import WeakValueDictionary

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.process.shares import Flow, Level, Shares, Work

log = Logger()
TURN_SECONDS = 0.002  # length of a turn, after which the reactor polls its sockets
_ALONE_TURN_SECONDS = 0.01  # length while one flow is alone: longer turns cost less
_ALONE_AFTER_SECONDS = 0.05  # a flow is alone after so long without work of other flows and without long computations
_MIN_SECONDS = 0.0005  # the least time for a piece of work, even at the end of a turn
# weight of connections without a request so far; the weights of other levels are their seats
NEW_CONNECTIONS_WEIGHT = 60.0
#: weight of their first reads after the handshake, never more than there were handshakes: the seats of all levels by default
FIRST_READS_WEIGHT = 600.0


class Turn:
    """Runs work now or in a later turn, and tells work that is done piece by piece when its time is over.

    ``seconds`` is the length of a turn, ``timer`` gives seconds (the reactor's clock).  Work is a function; its exceptions are
    logged.
    """

    def __init__(
        self, reactor: IReactorTime, *, seconds: float = TURN_SECONDS, timer: Callable[[], float] | None = None
    ) -> None:
        self._reactor = reactor
        self._timer = reactor.seconds if timer is None else timer
        self._seconds = seconds
        self._shares = Shares()
        self._long: dict[Flow | None, deque[Work]] = {}  # the flow that was served last is at the end
        self._ends: list[Work] = []
        self._scheduled = False
        self._began = 0.0
        self._until = 0.0  # when this turn should end
        self._limit = 0.0  # when the current piece of work should end
        self._flow: Flow | None = None  # flow of the work that runs now
        self._since = 0.0  # until when its time is counted
        self._last: Flow | None = None  # flow of the work that ran last
        self._alone_from = 0.0  # when its flow counts as alone
        #: the flow that is alone: its connections need not ask, and nothing is counted
        self.alone: Flow | None = None
        self._nobody = Flow(Level("unclassified"))
        self._new_connections = Level("new connections", NEW_CONNECTIONS_WEIGHT)
        self._first_reads = Level("first reads", FIRST_READS_WEIGHT)
        self._hosts: WeakValueDictionary[tuple[Level, str], Flow] = WeakValueDictionary()

    def new_connection_flow(self, host: str) -> Flow:
        """The flow of connections from ``host`` without a request so far."""
        return self._host_flow(self._new_connections, host)

    def first_read_flow(self, host: str) -> Flow:
        """The flow of the first reads after their handshakes."""
        return self._host_flow(self._first_reads, host)

    def _host_flow(self, level: Level, host: str) -> Flow:
        flow = self._hosts.get((level, host))
        if flow is None:
            flow = self._hosts[level, host] = Flow(level)
        return flow

    # -- whether there is time

    def over(self) -> bool:
        """Whether the current piece of work should end, or nothing else should begin in this turn."""
        return self._scheduled and self._timer() > self._limit

    def busy(self) -> bool:
        """Whether new work has to wait."""
        return bool(self._shares) or self.over()

    def _begin(self) -> None:
        self._scheduled = True
        self._began = now = self._timer()
        if now > self._alone_from and not self._long:
            self.alone = self._last
        self._until = self._limit = now + (self._seconds if self.alone is None else _ALONE_TURN_SECONDS)
        self._reactor.callLater(0, self._end)

    # -- work

    def run(self, work: Work, flow: Flow | None = None) -> None:
        """Does ``work`` now if there is time and no work waits, or if the current work is of the same flow."""
        flow = flow or self._nobody
        if flow is self._flow:
            work()
        elif self.busy():
            self.wait(work, flow)
        else:
            self._do(work, flow)

    def wait(self, work: Work, flow: Flow | None = None) -> None:
        """Does ``work`` when it is the turn of ``flow``."""
        flow = flow or self._nobody
        self._shares.add(work, flow)
        if not self._scheduled:
            self._begin()
        if flow is not self.alone:
            self.alone = None

    def next(self, flow: Flow) -> Deferred[None]:
        """Fires when it is the turn of ``flow``."""
        waiting: Deferred[None] = Deferred()
        self.wait(lambda: None if waiting.called else waiting.callback(None), flow)
        return waiting

    def wait_long(self, work: Work, flow: Flow | None) -> None:
        """Does ``work``, a slice of a long computation; the flows take turns."""
        queue = self._long.get(flow)
        if queue is None:
            queue = self._long[flow] = deque()
        queue.append(work)
        self.alone = None
        if not self._scheduled:
            self._begin()

    def at_end(self, work: Work) -> None:
        """Does ``work`` at the end of this turn, before long computations."""
        self._ends.append(work)
        if not self._scheduled:
            self._begin()

    def _end(self) -> None:
        """Does waiting work until the time is over; at least one piece of short work and one slice."""
        shares, long = self._shares, self._long
        if shares and self.alone is not None:
            # connections of a flow that is alone do not ask, and may have used the whole turn
            self._until = self._limit = self._timer() + _ALONE_TURN_SECONDS
        while shares:
            work, flow = shares.take()
            self._do(work, flow)
            if self._timer() >= self._until:
                break
        self._do_ends()
        while long:
            owner = next(iter(long))
            queue = long.pop(owner)
            work = queue.popleft()
            if queue:
                long[owner] = queue
            self._attempt(work)
            self._last = None
            if self._timer() >= self._until:
                break
        self._do_ends()
        self._scheduled = False
        if shares or long or self._ends:
            self._begin()

    def _do_ends(self) -> None:
        ends, self._ends = self._ends, []
        for work in ends:
            self._attempt(work)

    @staticmethod
    def _attempt(work: Work) -> None:
        try:
            work()
        except Exception:
            log.failure("what waited for its turn has failed")

    # -- for which flow the time is counted

    def _do(self, work: Work, flow: Flow) -> None:
        before = self.begin(flow)
        self._attempt(work)
        self.end(before)

    def begin(self, flow: Flow) -> Flow | None:
        """Begins a piece of work of ``flow``.  Returns the flow of the interrupted work, to be passed to ``end``."""
        if not self._scheduled:
            self._begin()
        before, now = self._flow, self._timer()
        if before is not None:
            self._shares.charge(before, now - self._since)
        self._flow, self._since = flow, now
        self._shares.wake(flow)
        if not self._shares:
            self._shares.serve(flow)
        if flow is not self._last:
            self.alone = None
            # handshakes are not cheaper when done together
            self._last = None if flow.level is self._new_connections or flow.level is self._first_reads else flow
            self._alone_from = now + _ALONE_AFTER_SECONDS
            self._until = min(self._until, self._began + self._seconds)
        self._limit = max(self._until, now + _MIN_SECONDS)
        return before

    def end(self, before: Flow | None) -> None:
        now = self._timer()
        if self._flow is not None:
            self._shares.charge(self._flow, now - self._since)
        self._flow, self._since = before, now
        if before is None:
            self._limit = self._until

    def switch(self, flow: Flow) -> bool:
        """Counts the current work for ``flow``, which is known only now.  Returns whether other work should go first."""
        if self._flow is None or self._flow is flow:
            return False
        self.begin(flow)
        return bool(self._shares)
