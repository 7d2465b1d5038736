"""Fair queuing of one priority level's requests (KEP-1040; upstream: ``fairqueuing/queueset``).

Each queue has a clock of the seat-seconds it was served; the next request comes from the queue that would be least
ahead after it. A queue that was empty starts where the least served of those stands in which somebody waits, so that
nobody saves up and nobody has to catch up. The time a request takes is guessed when it is dispatched and put right when
it ends.

What is shared out is what is scarce.  While seats are, a request counts for as long as it has them, as upstream.  While
there are seats enough, requests wait for the one thread they all run on (``kapi.scheduling``), and one that itself waits
for the store or a webhook takes nothing from anybody: it counts for the time it has worked.

The last seats are kept for queues in which nothing runs.  The store answers many writes at once, so that one who writes a
hundred at a time gives all seats back together and takes them again, and others would wait for that each time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from kapi.flowcontrol.queue import EXPECTED_SECONDS, NO_REQUESTS, Queue, Request
from kapi.flowcontrol.sharding import deal
from kapi.flowcontrol.usage import Usage

_RESERVED_SHARE = 16  # one seat of so many is kept for queues in which nothing runs

QUEUE_FULL = "queue-full"
CONCURRENCY_LIMIT = "concurrency-limit"
TIME_OUT = "time-out"
CANCELLED = "cancelled"


class FairQueues:
    """``queues`` 0 rejects instead of queuing; ``limit`` (seats) None lets everything pass at once."""

    def __init__(
        self,
        reactor: IReactorTime,
        limit: int | None,
        queues: int = 0,
        hand: int = 0,
        length: int = 0,
    ) -> None:
        self._reactor = reactor
        self.limit = limit
        self.queues = [Queue() for _ in range(queues)]
        self._backlogged: dict[Queue, None] = {}  # those in which somebody waits; the one served last is at the end
        self._hand = hand
        self._length = length
        self.usage = Usage(reactor.seconds())
        self.seats_in_use = 0
        self.seats_waiting = 0
        self.executing = 0
        self.waiting = 0
        self.running: set[Request] = set()  # those that hold seats
        self._round = 0.0  # where the queue stood that was served last
        self._dispatching = False
        self._ending: IDelayedCall | None = None  # the call at the end of the shortest patience of those who wait
        #: called with a request and the seconds it waited or ran
        self.on_waited: Callable[[Request, float, bool], None] = lambda request, seconds, executed: None
        self.on_executed: Callable[[Request, float], None] = lambda request, seconds: None
        #: called with a request that had to wait and the length of its queue with it
        self.on_queued: Callable[[Request, int], None] = lambda request, length: None

    @property
    def capacity(self) -> int:
        """Requests that the queues can hold."""
        return len(self.queues) * self._length

    @property
    def progress(self) -> float:
        """Seat-seconds that a queue has been served which was never empty."""
        return self._round

    @property
    def idle(self) -> bool:
        return not self.executing and not self.waiting and not self.seats_in_use

    def reconfigure(self, queues: int, hand: int, length: int) -> None:
        """New queues are empty; of those that are given up the requests move on."""
        self._hand, self._length = hand, length
        if queues == len(self.queues):
            return
        left = [request for queue in self.queues for request in queue.requests]
        self.queues = [Queue() for _ in range(queues)]
        self._backlogged.clear()
        for queue in self.queues:
            queue.served = self._round
        for request in left:
            if self.queues:
                self._enqueue(request, self._pick(request.flow))
            else:
                self._leave(request)
                request.queue = None
                self._go(request)

    def set_limit(self, limit: int | None) -> None:
        self.limit = limit
        self._dispatch_all()

    def admit(self, request: Request, patience: float) -> str | Deferred[str]:
        """ "" when it may go at once, the reason when it must not, or a Deferred of either.

        ``patience``: seconds it may wait.  Cancelling the Deferred takes it out of its queue.
        """
        now = self._reactor.seconds()
        request.arrived = request.started = now
        if self.limit is None:
            self._start(request, now)
            return ""
        if not self.queues:
            if not self._fits(request):
                return CONCURRENCY_LIMIT
            self._dispatch(request, now)
            return ""
        queue = self._pick(request.flow)
        if len(queue.requests) >= self._length:
            return QUEUE_FULL
        self._touch(queue)
        if self._fits(request) and self._may_go(queue, request):
            request.queue = queue
            self._dispatch(request, now)
            return ""
        request.waiting = Deferred(lambda _: self._cancel(request))
        waiting = request.waiting
        request.until = now + patience
        self._enqueue(request, queue)
        self._end_by(request.until, now)
        self._dispatch_all()
        return waiting

    def finish(self, request: Request, worked: float | None = None) -> None:
        """The request is answered (or, for a watch, under way).  ``worked``: seconds of its time that it did not wait."""
        if request.state != "executing":
            return
        now = self._reactor.seconds()
        took = now - request.started
        self.executing -= 1
        if request.queue is not None:
            request.queue.executing -= 1
            counted = took if worked is None or self._full else worked
            request.queue.guessed -= request.width * EXPECTED_SECONDS
            request.queue.served += request.width * counted
        if request.tally is None or request.kind == "watch":
            self.on_executed(request, took)
        else:
            request.tally.ended(took)
        if request.final_seats and request.extra > 0:
            request.state = "final"
            self._reactor.callLater(request.extra, self._release, request)
        else:
            self._release(request, now)

    # -- inside

    def _fits(self, request: Request) -> bool:
        assert self.limit is not None
        if request.width > self.limit:  # too wide for the level: alone it may go
            return self.seats_in_use == 0
        return self.seats_in_use + request.width <= self.limit

    @property
    def _full(self) -> bool:
        """No seat is free for a queue in which something runs."""
        if self.limit is None:
            return False
        kept = self.limit // _RESERVED_SHARE if len(self.queues) > 1 else 0
        return self.seats_in_use >= self.limit - kept

    def _may_go(self, queue: Queue, request: Request) -> bool:
        """Whether a request goes as it comes: nobody waits who could go before it."""
        if queue.executing and self._full:
            return False
        first = self._least_served()
        if first is None:
            return True
        here = queue.served + queue.guessed + request.width * EXPECTED_SECONDS
        return not queue.requests and here <= first.next_stand and self._fits(first.requests[0])

    def _pick(self, flow: int) -> Queue:
        """The shortest queue of the flow's hand, by the work that waits and runs in it."""
        best: Queue | None = None
        load = 0.0
        for number in deal(flow, len(self.queues), self._hand):
            queue = self.queues[number]
            here = queue.waiting_seats + queue.executing
            if not here:
                return queue
            if best is None or here < load:
                best, load = queue, here
        assert best is not None
        return best

    def _touch(self, queue: Queue) -> None:
        if queue.requests or queue.executing:
            return
        start = min((other.served for other in self._backlogged), default=self._round)
        if queue.served < start:
            queue.served = start

    def _enqueue(self, request: Request, queue: Queue) -> None:
        self._touch(queue)
        fresh = request.state == "new"
        request.queue = queue
        request.state = "waiting"
        if queue.requests is NO_REQUESTS:
            queue.requests = deque()
        queue.requests.append(request)
        self._backlogged[queue] = None
        queue.waiting_seats += request.width
        if fresh:
            self.waiting += 1
            self.seats_waiting += request.width
            self.on_queued(request, len(queue.requests))
            self._note(self._reactor.seconds())

    def _dispatch_all(self) -> None:
        if self._dispatching:
            return  # a request has ended while it was being let in: the loop below goes on
        self._dispatching = True
        try:
            while self.waiting:
                queue = self._least_served()
                if queue is None or not (self.limit is None or self._fits(queue.requests[0])):
                    return
                request = queue.requests.popleft()
                queue.waiting_seats -= request.width
                del self._backlogged[queue]
                if queue.requests:
                    self._backlogged[queue] = None
                self._leave(request)
                self._go(request)
        finally:
            self._dispatching = False

    def _go(self, request: Request) -> None:
        """Dispatches one that has waited."""
        self._dispatch(request, self._reactor.seconds())
        waiting, request.waiting = request.waiting, None
        if waiting is not None and not waiting.called:
            waiting.callback("")

    def _least_served(self) -> Queue | None:
        """Of those that may have a seat."""
        best: Queue | None = None
        least = 0.0
        full = self._full
        for queue in self._backlogged:  # equals take turns
            if full and queue.executing:
                continue
            stand = queue.next_stand
            if best is None or stand < least:
                best, least = queue, stand
        return best

    def _leave(self, request: Request) -> None:
        """Out of the queue, one way or the other."""
        self.waiting -= 1
        self.seats_waiting -= request.width
        if not self.waiting and self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _dispatch(self, request: Request, now: float) -> None:
        queue = request.queue
        if queue is not None:
            queue.executing += 1
            self._round = max(self._round, queue.served)
            queue.guessed += request.width * EXPECTED_SECONDS
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
        self.seats_in_use += request.width
        self._note(now)

    def _release(self, request: Request, now: float | None = None) -> None:
        request.state = "done"
        self.running.discard(request)
        self.seats_in_use -= request.width
        self._note(self._reactor.seconds() if now is None else now)
        if self.waiting:
            self._dispatch_all()

    def _note(self, now: float) -> None:
        in_use = self.seats_in_use
        self.usage.change(now, (in_use, self.executing, self.waiting, in_use + self.seats_waiting))

    def _cancel(self, request: Request) -> None:
        self._remove(request)

    def _end_by(self, until: float, now: float) -> None:
        """Sees to it that patience that ends then is noticed; one call serves all."""
        if self._ending is None:
            self._ending = self._reactor.callLater(until - now, self._end)
        elif until < self._ending.getTime():
            self._ending.reset(until - now)

    def _end(self) -> None:
        """Turns those away whose patience has ended."""
        self._ending = None
        now = self._reactor.seconds()
        waiting = [request for queue in self._backlogged for request in queue.requests]
        for request in waiting:
            if request.until <= now:
                self._give_up(request, TIME_OUT)
        left = [request.until for request in waiting if request.state == "waiting"]
        if left and self._ending is None:
            self._end_by(min(left), now)

    def _give_up(self, request: Request, why: str) -> None:
        waiting = request.waiting
        if self._remove(request) and waiting is not None and not waiting.called:
            waiting.callback(why)

    def _remove(self, request: Request) -> bool:
        if request.state != "waiting" or request.queue is None:
            return False
        request.queue.requests.remove(request)
        if not request.queue.requests:
            del self._backlogged[request.queue]
        request.queue.waiting_seats -= request.width
        request.state = "done"
        self._leave(request)
        self.on_waited(request, self._reactor.seconds() - request.started, False)
        self._note(self._reactor.seconds())
        self._dispatch_all()
        return True
