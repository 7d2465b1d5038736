"""A request that waits for its seats, and the queue that it waits in (upstream: ``fairqueuing/queueset/types.go``)."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from twisted.internet.defer import Deferred

from kapi.flowcontrol.tally import Tally
from kapi.request.info import RequestInfo
from kapi.request.user import UserInfo

EXPECTED_SECONDS = 0.003  # seconds that a request is expected to take


class Seats(Protocol):
    """What gives requests their seats (FairQueues)."""

    def finish(self, request: Request, worked: float | None = None) -> None: ...


class Request:
    """One request on its way through a level.  ``seats`` while it runs, ``final_seats`` for ``extra`` seconds after.

    ``name`` is its flow in words; ``user`` and ``info`` say what it is, for those who look into the queues.
    """

    __slots__ = (
        "arrived", "extra", "final_seats", "flow", "info", "name", "queue", "queues", "schema", "seats", "started", "state",
        "tally", "until", "user", "waiting", "width",
    )  # fmt: skip

    queues: Seats  # of its level: where it is admitted

    def __init__(
        self,
        schema: str,
        flow: int,
        seats: int,
        final_seats: int = 0,
        extra: float = 0.0,
        name: str = "",
        user: UserInfo | None = None,
        info: RequestInfo | None = None,
    ) -> None:
        self.schema = schema
        self.flow = flow
        self.seats = seats
        self.final_seats = final_seats
        self.width = seats if seats >= final_seats else final_seats  # seats that must be free for it
        self.extra = extra
        self.name = name
        self.tally: Tally | None = None  # where it is counted, but for what is particular
        self.user = user
        self.info = info
        self.queue: Queue | None = None
        self.arrived = self.started = 0.0  # reactor seconds; until it is dispatched it has started when it arrived
        self.until = 0.0  # reactor seconds; who waits longer is turned away
        self.state = "new"  # waiting, executing, final, done
        self.waiting: Deferred[str] | None = None  # fires with "" to go, or with why not

    @property
    def kind(self) -> str:
        return "watch" if self.info is not None and self.info.verb == "watch" else "regular"


#: in most of some 500 queues nobody ever waits: one of its own takes 600 bytes
NO_REQUESTS: deque[Request] = deque(maxlen=0)


class Queue:
    """Requests of the flows that were dealt to it, in the order in which they came."""

    __slots__ = ("executing", "guessed", "requests", "served", "waiting_seats")

    def __init__(self) -> None:
        self.requests = NO_REQUESTS
        self.executing = 0  # requests
        self.waiting_seats = 0
        self.served = 0.0  # seat-seconds of those that have ended, on the scale of the rounds
        self.guessed = 0.0  # seat-seconds that those that run are taken to need

    @property
    def next_stand(self) -> float:
        """Where it stands when its first request is dispatched."""
        return self.served + self.guessed + self.requests[0].width * EXPECTED_SECONDS
