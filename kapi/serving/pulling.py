"""Asks for the parts of long answers over HTTP/1.1, each when the client has taken those before it.

Twisted's channel would leave that to a cooperator: a call of the reactor's for every answer, and thirty calls of functions for
every part.  Here the first parts of an answer are sent at once, which is all of them for most pages of a list.  What does not fit
into that is sent in turns, one part of each answer after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from twisted.internet.interfaces import IPullProducer, IPushProducer, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from kapi.request.flow import Flow
from kapi.scheduling.thread_scheduler import ThreadScheduler

log = Logger()
_FIRST_SECONDS = 0.005  # that the first parts of an answer may take at once
_MAX_AHEAD_SECONDS = 0.01  # by which parts that are sent at once may be ahead of half of the time
_TURN_SECONDS = 0.01  # of all answers that wait, in one turn of the reactor


class PulledTransport(Protocol):
    """The transport (TLSConnection); ``flows`` are those of its last requests, the latest first."""

    flows: tuple[Flow, ...]

    def abortConnection(self) -> None: ...


class Pulls:
    """The answers of a port that are sent in parts.  ``timer`` is in seconds."""

    def __init__(self, reactor: IReactorTime, timer: Callable[[], float] = perf_counter) -> None:
        self._reactor = reactor
        self._timer = timer
        self._waiting: deque[Pull] = deque()
        self._scheduled = False
        self._even_at = 0.0  # by the timer: when parts that were sent at once will have taken half of the time

    def run(self, pull: Pull) -> None:
        """Sends parts now, and the rest when it is this answer's turn.

        While flows compete the scheduler says whose turn it is.  Otherwise parts are sent at once for half of the time at most,
        so that many answers which begin together do not hold up the reactor.
        """
        scheduler = pull.scheduler
        if scheduler is not None and scheduler.shared():
            if scheduler.late():
                self._wait(pull)
                return
            before = scheduler.begin(pull.transport.flows[0])
            try:
                self.send(pull)
            finally:
                scheduler.end(before)
            return
        since = self._timer()
        if self._waiting or self._even_at - since > _MAX_AHEAD_SECONDS:
            self._wait(pull)
            return
        self.send(pull)
        self._even_at = max(self._even_at, since) + 2 * (self._timer() - since)

    def send(self, pull: Pull) -> None:
        """Sends parts until the client takes no more, or for some time."""
        timer, over = self._timer, pull.scheduler.over if pull.scheduler is not None else _never
        end = timer() + _FIRST_SECONDS
        while pull.wants:
            pull.ask()
            if timer() > end or over():
                break
        if pull.wants:
            self._wait(pull)

    def _wait(self, pull: Pull) -> None:
        pull.waits = True
        scheduler = pull.scheduler
        if scheduler is not None and scheduler.shared():
            pull.flow = pull.transport.flows[0]
            scheduler.wait(pull)
            return
        self._waiting.append(pull)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        """Sends a part of each answer that waits, again and again."""
        self._scheduled = False
        end = self._timer() + _TURN_SECONDS
        waiting = self._waiting
        while waiting:
            pull = waiting.popleft()
            if pull.wants:
                pull.ask()
            if pull.wants:
                waiting.append(pull)
            else:
                pull.waits = False
            if self._timer() > end:
                break
        if waiting:
            self._schedule()


@implementer(IPushProducer)
class Pull:
    """One answer, whose parts ``producer`` writes.  For its channel it is a push producer."""

    __slots__ = ("_paused", "_producer", "_pulls", "flow", "scheduler", "transport", "waits")

    def __init__(self, producer: IPullProducer, transport: PulledTransport, pulls: Pulls) -> None:
        self._producer: IPullProducer | None = producer
        self._pulls = pulls
        self._paused = False
        self.transport = transport
        self.scheduler: ThreadScheduler | None = getattr(transport, "scheduler", None)
        self.flow: Flow | None = None
        self.waits = False  # for its turn

    @property
    def wants(self) -> bool:
        """Whether the client takes more."""
        return self._producer is not None and not self._paused

    def ask(self) -> None:
        """Writes a part."""
        try:
            assert self._producer is not None
            self._producer.resumeProducing()
        except Exception:
            log.failure("an answer was broken off by a fault of the server's")
            self.forget()
            self.transport.abortConnection()

    def take_turn(self) -> None:
        self.waits = False
        self._pulls.send(self)

    def forget(self) -> None:
        """There are no more parts, or nobody takes them."""
        self._producer = None

    # -- for the channel

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        if not self.waits and self._producer is not None:
            self._pulls.run(self)

    def stopProducing(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()


def _never() -> bool:
    return False
