"""Fair queuing of one priority level's requests (KEP-1040; upstream: ``fairqueuing/queueset``, ``util/shufflesharding``).

Each queue counts the seat-seconds of its requests.  The next request comes from the queue that would then have the fewest.  A
queue that was empty starts at the count of the least served queue with waiting requests, so that it has no advantage from the
time without requests.  The time of a request is estimated when it is dispatched, and corrected when it ends.

While seats are scarce, a request counts for the whole time in which it has seats, as upstream.  While there are enough seats,
requests compete for the one thread on which they all run (``kapi.process``).  Then a request counts only for the time in which
it works, not for its waits for the store or a webhook.

The last seats are reserved for queues without running requests.  The store replies to many writes at once, so a client that
writes a hundred at a time frees all its seats together and takes them again; without a reserve others would wait each time.

Each flow has a hand of a few queues out of many.  Two flows rarely have the same queues.  So when one flow fills its queues,
another flow usually still has a short queue.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from kapi.flowcontrol.queue import EXPECTED_SECONDS, NO_REQUESTS, Queue, Request
from kapi.flowcontrol.usage import Usage
from kapi.machinery.memo import cached_function

_SEATS_PER_RESERVED = 16  # one of this many seats is reserved for queues without running requests
QUEUE_FULL = "queue-full"
CONCURRENCY_LIMIT = "concurrency-limit"
TIME_OUT = "time-out"
CANCELLED = "cancelled"


def flow_hash(schema: str, flow: str) -> int:
    """The 64-bit hash of a flow; ``flow`` is its distinguisher."""
    data = len(schema).to_bytes(4, "little") + schema.encode() + flow.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@cached_function(4096)
def deal(entropy: int, deck: int, hand: int) -> tuple[int, ...]:
    """``hand`` different numbers below ``deck``, determined by ``entropy``."""
    cards: list[int] = []
    for position in range(hand):
        entropy, card = divmod(entropy, deck - position)
        # the card-th of the numbers not yet dealt
        for taken in sorted(cards):
            if card >= taken:
                card += 1
        cards.append(card)
    return tuple(cards)


class FairQueues:
    """Queues and seats of one priority level.

    ``limit`` is in seats; None lets every request run at once.  ``queues`` is their number; 0 rejects instead of queuing.
    ``hand_size`` is the number of queues of one flow, ``queue_length_limit`` the requests in one queue.
    """

    def __init__(
        self, reactor: IReactorTime, limit: int | None, queues: int = 0, hand_size: int = 0, queue_length_limit: int = 0
    ) -> None:
        self._reactor = reactor
        self.limit = limit
        self.count = queues
        self.queues: dict[int, Queue] = {}  # only queues that a flow was dealt, by number: there may be ten million
        self._backlogged: dict[Queue, None] = {}  # queues with waiting requests; the queue served last is at the end
        self._hand_size = hand_size
        self._queue_length_limit = queue_length_limit
        self.usage = Usage(reactor.seconds())
        self.seats_in_use = 0
        self.seats_waiting = 0
        self.executing = 0
        self.waiting = 0
        self.running: set[Request] = set()  # requests with seats, also final seats
        self._current_r = 0.0  # see ``current_r``
        self._dispatching = False
        self._timeout_call: IDelayedCall | None = None  # at the time when the first waiting request is rejected
        #: called with a request and the seconds it waited or ran
        self.on_waited: Callable[[Request, float, bool], None] = lambda request, seconds, executed: None
        self.on_executed: Callable[[Request, float], None] = lambda request, seconds: None
        #: called with a request that had to wait and the length of its queue with it
        self.on_queued: Callable[[Request, int], None] = lambda request, length: None

    @property
    def capacity(self) -> int:
        """The most requests that the queues can hold."""
        return self.count * self._queue_length_limit

    @property
    def current_r(self) -> float:
        """Seat-seconds served to a queue that was never empty (upstream: R, the round number)."""
        return self._current_r

    @property
    def idle(self) -> bool:
        return not self.executing and not self.waiting and not self.seats_in_use

    def reconfigure(self, queues: int, hand_size: int, queue_length_limit: int) -> None:
        """Sets the queues' number, hand size and length.  Waiting requests move to new queues, or run when there are none."""
        self._hand_size, self._queue_length_limit = hand_size, queue_length_limit
        if queues == self.count:
            return
        waiting = [request for queue in self._backlogged for request in queue.requests]
        self.count = queues
        self.queues.clear()
        self._backlogged.clear()
        for request in waiting:
            if queues:
                self._enqueue(request, self._pick(request.flow_hash))
            else:
                self._count_out(request)
                request.queue = None
                self._dispatch_waiting(request)

    def set_limit(self, limit: int | None) -> None:
        self.limit = limit
        self._dispatch_all()

    def admit(self, request: Request, max_wait: float) -> str | Deferred[str]:
        """Returns "" when the request may run at once, the reason of a rejection, or a Deferred of either.

        ``max_wait`` is the seconds it may wait.  Cancelling the Deferred removes it from its queue.
        """
        now = self._reactor.seconds()
        request.arrived = request.started = now
        if self.limit is None:
            self._start(request, now)
            return ""
        if not self.count:
            if not self._fits(request):
                return CONCURRENCY_LIMIT
            self._dispatch(request, now)
            return ""
        queue = self._pick(request.flow_hash)
        if len(queue.requests) >= self._queue_length_limit:
            return QUEUE_FULL
        self._catch_up(queue)
        if self._fits(request) and self._may_dispatch(queue, request):
            request.queue = queue
            self._dispatch(request, now)
            return ""
        request.waiting = Deferred(lambda _: self._cancel(request))
        waiting = request.waiting
        request.until = now + max_wait
        self._enqueue(request, queue)
        self._schedule_timeout(request.until, now)
        self._dispatch_all()
        return waiting

    def finish(self, request: Request, worked: float | None = None) -> None:
        """Frees the seats of a request that is answered (or of a watch that has begun).

        ``worked`` is the time in seconds in which the request did not wait; without it all its time counts.
        """
        if request.state != "executing":
            return
        now = self._reactor.seconds()
        took = now - request.started
        self.executing -= 1
        if request.queue is not None:
            request.queue.executing -= 1
            counted = took if worked is None or self._full else worked
            request.queue.expected -= request.max_seats * EXPECTED_SECONDS
            request.queue.served += request.max_seats * counted
        if request.tally is None or request.kind == "watch":
            self.on_executed(request, took)
        else:
            request.tally.ended(took)
        if request.final_seats and request.additional_latency > 0:
            request.state = "final"
            self._reactor.callLater(request.additional_latency, self._release, request)
        else:
            self._release(request, now)

    # -- inside

    def _fits(self, request: Request) -> bool:
        assert self.limit is not None
        if request.max_seats > self.limit:  # it can only run alone
            return self.seats_in_use == 0
        return self.seats_in_use + request.max_seats <= self.limit

    @property
    def _full(self) -> bool:
        """Whether no seat is free for a queue with running requests."""
        if self.limit is None:
            return False
        reserved = self.limit // _SEATS_PER_RESERVED if self.count > 1 else 0
        return self.seats_in_use >= self.limit - reserved

    def _may_dispatch(self, queue: Queue, request: Request) -> bool:
        """Whether a new request runs at once: no waiting request should run before it."""
        if queue.executing and self._full:
            return False
        first = self._least_served()
        if first is None:
            return True
        here = queue.served + queue.expected + request.max_seats * EXPECTED_SECONDS
        return not queue.requests and here <= first.served_after_next and self._fits(first.requests[0])

    def _pick(self, flow: int) -> Queue:
        """The shortest queue of the flow's hand, by waiting seats and running requests."""
        best: Queue | None = None
        load = 0.0
        for number in deal(flow, self.count, self._hand_size):
            queue = self.queues.get(number)
            if queue is None:
                queue = self.queues[number] = Queue()
                return queue
            here = queue.waiting_seats + queue.executing
            if not here:
                return queue
            if best is None or here < load:
                best, load = queue, here
        assert best is not None
        return best

    def _catch_up(self, queue: Queue) -> None:
        """Gives a queue that was empty no advantage from that time."""
        if queue.requests or queue.executing:
            return
        start = min((other.served for other in self._backlogged), default=self._current_r)
        if queue.served < start:
            queue.served = start

    def _enqueue(self, request: Request, queue: Queue) -> None:
        self._catch_up(queue)
        new = request.state == "new"
        request.queue = queue
        request.state = "waiting"
        if queue.requests is NO_REQUESTS:
            queue.requests = deque()
        queue.requests.append(request)
        self._backlogged[queue] = None
        queue.waiting_seats += request.max_seats
        if new:
            self.waiting += 1
            self.seats_waiting += request.max_seats
            self.on_queued(request, len(queue.requests))
            self._record_usage(self._reactor.seconds())

    def _dispatch_all(self) -> None:
        if self._dispatching:
            return  # called for a request that ended inside the loop below, which continues
        self._dispatching = True
        try:
            while self.waiting:
                queue = self._least_served()
                if queue is None or not (self.limit is None or self._fits(queue.requests[0])):
                    return
                request = queue.requests.popleft()
                queue.waiting_seats -= request.max_seats
                del self._backlogged[queue]
                if queue.requests:
                    self._backlogged[queue] = None
                self._count_out(request)
                self._dispatch_waiting(request)
        finally:
            self._dispatching = False

    def _dispatch_waiting(self, request: Request) -> None:
        """Dispatches a request that has waited."""
        self._dispatch(request, self._reactor.seconds())
        waiting, request.waiting = request.waiting, None
        if waiting is not None and not waiting.called:
            waiting.callback("")

    def _least_served(self) -> Queue | None:
        """The queue to serve next, of the queues that may have a seat."""
        best: Queue | None = None
        least = 0.0
        full = self._full
        for queue in self._backlogged:  # equal queues take turns
            if full and queue.executing:
                continue
            served = queue.served_after_next
            if best is None or served < least:
                best, least = queue, served
        return best

    def _count_out(self, request: Request) -> None:
        """Counts ``request`` no longer as waiting."""
        self.waiting -= 1
        self.seats_waiting -= request.max_seats
        if not self.waiting and self._timeout_call is not None:
            self._timeout_call.cancel()
            self._timeout_call = None

    def _dispatch(self, request: Request, now: float) -> None:
        queue = request.queue
        if queue is not None:
            queue.executing += 1
            self._current_r = max(self._current_r, queue.served)
            queue.expected += request.max_seats * EXPECTED_SECONDS
        self._start(request, now)

    def _start(self, request: Request, now: float) -> None:
        waited = now - request.started
        if request.tally is not None and waited == 0:
            request.tally.dispatched += 1
        else:
            self.on_waited(request, waited, True)
        request.started = now
        request.state = "executing"
        self.executing += 1
        self.running.add(request)
        self.seats_in_use += request.max_seats
        self._record_usage(now)

    def _release(self, request: Request, now: float | None = None) -> None:
        request.state = "done"
        self.running.discard(request)
        self.seats_in_use -= request.max_seats
        self._record_usage(self._reactor.seconds() if now is None else now)
        if self.waiting:
            self._dispatch_all()

    def _record_usage(self, now: float) -> None:
        in_use = self.seats_in_use
        self.usage.change(now, (in_use, self.executing, self.waiting, in_use + self.seats_waiting))

    def _cancel(self, request: Request) -> None:
        self._remove(request)

    def _schedule_timeout(self, until: float, now: float) -> None:
        """Makes sure that ``_time_out`` is called at ``until``; one delayed call serves all requests."""
        if self._timeout_call is None:
            self._timeout_call = self._reactor.callLater(until - now, self._time_out)
        elif until < self._timeout_call.getTime():
            self._timeout_call.reset(until - now)

    def _time_out(self) -> None:
        """Rejects the requests that have waited too long."""
        self._timeout_call = None
        now = self._reactor.seconds()
        waiting = [request for queue in self._backlogged for request in queue.requests]
        for request in waiting:
            if request.until <= now:
                self._reject(request, TIME_OUT)
        left = [request.until for request in waiting if request.state == "waiting"]
        if left and self._timeout_call is None:
            self._schedule_timeout(min(left), now)

    def _reject(self, request: Request, why: str) -> None:
        waiting = request.waiting
        if self._remove(request) and waiting is not None and not waiting.called:
            waiting.callback(why)

    def _remove(self, request: Request) -> bool:
        if request.state != "waiting" or request.queue is None:
            return False
        request.queue.requests.remove(request)
        if not request.queue.requests:
            del self._backlogged[request.queue]
        request.queue.waiting_seats -= request.max_seats
        request.state = "done"
        self._count_out(request)
        self.on_waited(request, self._reactor.seconds() - request.started, False)
        self._record_usage(self._reactor.seconds())
        self._dispatch_all()
        return True
