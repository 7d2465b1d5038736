"""A request that needs seats, and the queue in which it waits for them (upstream: ``fairqueuing/queueset/types.go``).

Ordinary requests (one seat, no wait) are only counted; the histograms are computed at a scrape.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from twisted.internet.defer import Deferred

from kapi.machinery.meters import Histogram
from kapi.request.info import RequestInfo
from kapi.request.user import UserInfo

_MAX_DURATIONS = 256  # durations that are kept before they are moved to the histogram
EXPECTED_SECONDS = 0.003  # expected duration of a request


class Tally:
    """Counts of one schema at one level; ``runs`` is the histogram of the seconds in which requests ran."""

    __slots__ = ("dispatched", "estimated", "_labels", "_ran", "_runs")

    def __init__(self, level: str, schema: str, runs: Histogram) -> None:
        self.estimated = 0  # requests estimated at one seat
        self.dispatched = 0  # requests that did not wait
        self._ran: list[float] = []
        self._runs = runs
        self._labels = (level, schema, "regular")

    def ended(self, seconds: float) -> None:
        """Counts a request, not a watch, that ran for ``seconds``."""
        self._ran.append(seconds)
        if len(self._ran) >= _MAX_DURATIONS:
            self.flush()

    def flush(self) -> None:
        """Moves the durations into the histogram."""
        if self._ran:
            self._runs.observe_all(self._ran, *self._labels)
            self._ran.clear()


class Seats(Protocol):
    """Takes the seats of a request back (``FairQueues``)."""

    def finish(self, request: Request, worked: float | None = None) -> None: ...


class Request:
    """One request of a priority level.

    It has ``initial_seats`` while it runs, and ``final_seats`` for ``additional_latency`` seconds after.  ``distinguisher``,
    ``user`` and ``info`` are only for ``dumps`` and metrics.
    """

    __slots__ = (
        "additional_latency", "arrived", "distinguisher", "final_seats", "flow_hash", "info", "initial_seats", "max_seats",
        "queue", "queues", "schema", "started", "state", "tally", "until", "user", "waiting",
    )  # fmt: skip

    queues: Seats  # the queues of its level

    def __init__(
        self,
        schema: str,
        flow_hash: int,
        initial_seats: int,
        final_seats: int = 0,
        additional_latency: float = 0.0,
        distinguisher: str = "",
        user: UserInfo | None = None,
        info: RequestInfo | None = None,
    ) -> None:
        self.schema = schema
        self.flow_hash = flow_hash
        self.initial_seats = initial_seats
        self.final_seats = final_seats
        self.max_seats = initial_seats if initial_seats >= final_seats else final_seats  # that must be free for it
        self.additional_latency = additional_latency
        self.distinguisher = distinguisher
        self.tally: Tally | None = None  # the tally of an ordinary request
        self.user = user
        self.info = info
        self.queue: Queue | None = None
        self.arrived = self.started = 0.0  # reactor seconds; the same until it is dispatched
        self.until = 0.0  # reactor seconds; rejected when it still waits then
        self.state = "new"  # waiting, executing, final, done
        self.waiting: Deferred[str] | None = None  # fires with "" to run, or with the reason of the rejection

    @property
    def kind(self) -> str:
        return "watch" if self.info is not None and self.info.verb == "watch" else "regular"


#: shared by empty queues: in most of some 500 queues no request ever waits, and a deque takes 600 bytes
NO_REQUESTS: deque[Request] = deque(maxlen=0)


class Queue:
    """Waiting requests of the flows that were dealt this queue, in the order of arrival."""

    __slots__ = ("executing", "expected", "requests", "served", "waiting_seats")

    def __init__(self) -> None:
        self.requests = NO_REQUESTS
        self.executing = 0  # number of executing requests
        self.waiting_seats = 0
        self.served = 0.0  # seat-seconds of requests that have ended, on the scale of ``FairQueues.current_r``
        self.expected = 0.0  # seat-seconds that running requests are expected to need

    @property
    def served_after_next(self) -> float:
        """The seat-seconds, with the expected ones, after the dispatch of its first request."""
        return self.served + self.expected + self.requests[0].max_seats * EXPECTED_SECONDS
