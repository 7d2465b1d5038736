"""Long computations in slices, so that none holds the reactor (ADR 18).

A request's code runs in a greenlet of a small pool.  Most of it ends before anybody notices; what may take long (it says so by
``engage``) and comes to a checkpoint
(``kapi/machinery/checkpoint.py``) after its slice is used up is suspended there, and goes on in a later turn of the reactor,
one flow after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from greenlet import getcurrent, greenlet
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery import checkpoint
from kapi.machinery.checkpoint import Interrupted
from kapi.request.flow import Flow
from kapi.scheduling.thread_scheduler import ThreadScheduler

log = Logger()
Argument = TypeVar("Argument")
Result = TypeVar("Result")

LENGTH = 0.005  # seconds of a slice
TURN = 0.010  # seconds of long computations in one turn of the reactor
_MIN_SLICE_SECONDS = 0.0005  # seconds of a slice that begins when the turn is used up
_MIN_COUNTED_SECONDS = 0.001  # seconds; less is no long computation
_MAX_IDLE_WORKERS = 16  # workers that are kept


class Computation(Protocol):
    """Whose the work is, over all its slices."""

    engaged: bool  # it may take long
    committed: bool  # others have seen something of it: it cannot be ended any more
    interrupt: BaseException | None  # why it is to end, until that was raised in it


class Owner(Protocol):
    """Who waits for the end of a suspended computation."""

    flow: Flow | None  # as priority and fairness has found

    def suspended(self) -> None:
        """Another slice is used up."""

    def resumed(self) -> None:
        """The next slice begins."""

    def finished(self, result: object) -> None:
        """The job has returned.  Raises nothing."""


class Worker(greenlet):  # type: ignore[misc]  # it has no annotations
    """Runs jobs, one after the other; a job catches what it raises."""

    until = 0.0  # seconds of perf_counter; 0 while the computation is none that may take long
    began = 0.0
    computation: Computation  # while a job runs
    result: object = None  # of the last job, until it is taken

    def __init__(self, slices: Slices) -> None:
        super().__init__(self._work)
        self._slices = slices
        self._thread = get_ident()

    def _work(self, job: Callable[[Any], object], argument: object) -> None:
        while True:
            try:
                result = job(argument)
            except Interrupted as interrupted:  # of a job that lets it pass
                result = Failure(interrupted.error)
            except Exception:
                result = Failure()
            self.result = result
            job = argument = result = None  # type: ignore[assignment]  # an idle worker keeps nothing alive
            job, argument = self.parent.switch()

    def pause(self) -> None:
        if get_ident() != self._thread or getcurrent() is not self:
            return
        self._end()
        self.parent.switch(_SUSPENDED)
        self._end()

    def commit(self) -> None:
        self._end()
        self.computation.committed = True

    def engage(self) -> bool:
        if get_ident() != self._thread:
            return False
        self.computation.engaged = True
        self.measure()
        return True

    def measure(self) -> None:
        """The slice begins now."""
        self.began = perf_counter()
        self.until = self.began + self._slices.length()

    def _end(self) -> None:
        computation = self.computation
        error = computation.interrupt
        if error is not None and not computation.committed:
            computation.interrupt = None
            raise Interrupted(error)


_SUSPENDED = object()


class Suspended:
    """A computation between two slices.  Whoever got it says who waits for it."""

    __slots__ = ("_slices", "flow", "owner", "worker")

    def __init__(self, worker: Worker, slices: Slices) -> None:
        self.worker = worker
        self.owner: Owner
        self.flow: Flow | None = None
        self._slices = slices

    def take_turn(self) -> None:
        """The next slice, when it is its flow's turn."""
        self._slices.resume(self)


class Slices:
    """``length`` and ``turn`` are seconds; with a ``length`` below 0 every checkpoint suspends."""

    def __init__(
        self,
        reactor: IReactorTime,
        *,
        length: float = LENGTH,
        turn: float = TURN,
    ) -> None:
        self._reactor = reactor
        self._length = length
        self._turn = turn
        #: whose turn it is while several flows compete; None when they are served in order of arrival
        self.scheduler: ThreadScheduler | None = None
        self._idle: list[Worker] = []
        self._ready: dict[Flow | None, deque[Suspended]] = {}  # the flow that was served last is at the end
        self._used = 0.0  # seconds of this turn
        self._scheduled = False

    def run(
        self, job: Callable[[Argument], Result], argument: Argument, computation: Computation
    ) -> Result | Failure | Suspended:
        """What ``job(argument)`` returns, or Suspended (see ``wait``).  A job catches its exceptions."""
        worker = self._idle.pop() if self._idle else Worker(self)
        worker.computation = computation
        outcome: Result | Failure | Suspended = self._go(worker, (job, argument))
        return outcome

    def wait(self, suspended: Suspended, owner: Owner) -> None:
        """``owner`` learns the result when the computation has come to its end."""
        suspended.owner = owner
        flow = owner.flow
        scheduler = self.scheduler
        if scheduler is not None and flow is not None and scheduler.shared():
            suspended.flow = flow
            scheduler.wait(suspended)
            return
        queue = self._ready.get(flow)
        if queue is None:
            queue = self._ready[flow] = deque()
        queue.append(suspended)
        self._come_back()

    def call(self, function: Callable[..., Result], *arguments: object) -> Deferred[Result]:
        """The result of a function that belongs to no request."""
        work: _Call[Result] = _Call()
        result = self.run(_called, (function, arguments), work)
        if isinstance(result, Suspended):
            self.wait(result, work)
        else:
            work.finished(result)
        return work.done

    def _go(self, worker: Worker, value: Any) -> Any:
        """One slice."""
        computation = worker.computation
        if computation.engaged:
            worker.measure()
        else:
            worker.until = 0.0
        worker.parent = getcurrent()
        before = checkpoint.current, checkpoint.running
        checkpoint.current, checkpoint.running = worker, worker if computation.engaged else None
        try:
            switched = worker.switch(*value)
        finally:
            checkpoint.current, checkpoint.running = before
        if worker.until:
            used = perf_counter() - worker.began
            if used > _MIN_COUNTED_SECONDS:
                self._used += used
                self._come_back()
            if switched is _SUSPENDED:
                return Suspended(worker, self)
        result, worker.result = worker.result, None
        worker.computation = None  # type: ignore[assignment]  # an idle worker keeps nothing alive
        if len(self._idle) < _MAX_IDLE_WORKERS:
            self._idle.append(worker)
        return result

    def length(self) -> float:
        """Seconds of a slice that begins now."""
        length = self._length
        return _MIN_SLICE_SECONDS if self._used >= self._turn and length > _MIN_SLICE_SECONDS else length

    def _come_back(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._serve)

    def _serve(self) -> None:
        """One slice of each flow after the other, until the turn is used up; at least one.

        What has begun since the reactor looked at its sockets counts: it looks at them again after this.
        """
        self._scheduled = False
        left = self._turn - self._used
        self._used = 0.0  # the first one has its whole slice
        ready = self._ready
        while ready:
            flow = next(iter(ready))
            queue = ready.pop(flow)
            suspended = queue.popleft()
            if queue:
                ready[flow] = queue
            try:
                self.resume(suspended)
            except Exception:  # its own fault: the others go on
                log.failure("what came after a long computation has failed")
            if self._used >= left or self._length < 0:
                break
        self._used = 0.0
        if ready:
            self._come_back()

    def resume(self, suspended: Suspended) -> None:
        """One slice of it."""
        owner = suspended.owner
        owner.resumed()
        result = self._go(suspended.worker, ())
        if isinstance(result, Suspended):
            owner.suspended()
            self.wait(result, owner)
        else:
            owner.finished(result)


class _Call(Generic[Result]):
    """A function's way through its slices."""

    flow: Flow | None = None

    def __init__(self) -> None:
        self.done: Deferred[Result] = Deferred(self._cancel)
        self.engaged = True
        self.committed = False
        self.interrupt: BaseException | None = None

    def _cancel(self, _: Deferred[Result]) -> None:
        self.interrupt = CancelledError()

    def suspended(self) -> None: ...

    def resumed(self) -> None: ...

    def finished(self, result: Any) -> None:
        if not self.done.called:
            self.done.callback(result)  # a Failure goes to the errbacks


def _called(call: tuple[Callable[..., Result], tuple[object, ...]]) -> Result:
    function, arguments = call
    return function(*arguments)
