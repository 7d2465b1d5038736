"""Long computations in slices, so that none holds the reactor (ADR 18).

A request's code runs in a greenlet of a small pool, and mostly ends within its first slice.  Code that may take long calls
``engage``.  If it then comes to a checkpoint (``kapi/machinery/checkpoint.py``) after its slice is used up, it is suspended
there.  It continues in a later turn of the reactor; the flows take turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

from greenlet import getcurrent, greenlet
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery import checkpoint, freeing
from kapi.machinery.checkpoint import Interrupted
from kapi.request.flow import Flow
from kapi.scheduling.large_trees import LargeTrees
from kapi.scheduling.thread_scheduler import ThreadScheduler

log = Logger()
Argument = TypeVar("Argument")
Result = TypeVar("Result")

SLICE_SECONDS = 0.001  # of one slice
TURN_SECONDS = 0.002  # of all long computations in one turn of the reactor
_MIN_SLICE_SECONDS = 0.0005  # of a slice that begins when the turn is used up
_MIN_COUNTED_SECONDS = 0.001  # shorter work does not count as a long computation
_MAX_IDLE_WORKERS = 16  # kept for reuse
_MAX_FREEING_SECONDS = 0.5  # for so long a large tree waits until those before it are freed
_FREEING_CHECK_SECONDS = 0.01


class Computation(Protocol):
    """The state of one computation over all its slices."""

    engaged: bool  # it may take long
    committed: bool  # it has visible effects, and can no longer be ended
    interrupt: BaseException | None  # why it is to end; None again once raised in it


class Owner(Protocol):
    """Is notified of the slices of a suspended computation, and gets its result."""

    flow: Flow | None  # as classified by priority and fairness

    def suspended(self) -> None:
        """Called when another slice is used up."""

    def resumed(self) -> None:
        """Called when the next slice begins."""

    def finished(self, result: object) -> None:
        """Called with what the job has returned.  Raises nothing."""


class Worker(greenlet):  # type: ignore[misc]  # it has no annotations
    """Runs jobs, one after the other; a job catches what it raises."""

    until = 0.0  # end of the slice, in seconds of perf_counter; 0 while the computation has not called ``engage``
    began = 0.0
    tree_bytes = 0  # of the text of its large tree
    counted_for: Flow | None = None  # the flow that this tree is counted for
    computation: Computation  # while a job runs
    result: object = None  # of the last job, until it is taken

    def __init__(self, slices: Slices) -> None:
        super().__init__(_work)
        self._slices = ref(slices)
        self._thread = get_ident()
        self.switch()

    def pause(self) -> None:
        if get_ident() != self._thread or getcurrent() is not self:
            return
        self._end()
        self.parent.switch(_SUSPENDED)
        self._end()

    def expect_tree(self, size: int) -> None:
        if not self.tree_bytes and get_ident() == self._thread:
            self.tree_bytes = size
            self.pause()

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
        """Begins a slice now."""
        slices = self._slices()
        assert slices is not None
        self.began = perf_counter()
        self.until = self.began + slices.length()

    def _end(self) -> None:
        computation = self.computation
        error = computation.interrupt
        if error is not None and not computation.committed:
            computation.interrupt = None
            raise Interrupted(error)


def _work() -> None:
    """What a worker runs until it is ended.

    The collector never frees a greenlet that is suspended, nor what its call was given: so it is given nothing, not even itself.
    """
    while True:
        job, argument = getcurrent().parent.switch()
        try:
            result = job(argument)
        except Interrupted as interrupted:  # of a job that lets it pass
            result = Failure(interrupted.error)
        except Exception:
            result = Failure()
        getcurrent().result = result
        del job, argument, result  # an idle worker keeps nothing alive


_SUSPENDED = object()


class Suspended:
    """A computation between two slices.  Its ``owner`` is set by ``Slices.wait``."""

    __slots__ = ("_slices", "flow", "owner", "worker")

    def __init__(self, worker: Worker, slices: Slices) -> None:
        self.worker = worker
        self.owner: Owner
        self.flow: Flow | None = None
        self._slices = slices

    def take_turn(self) -> None:
        """Runs the next slice; called when its flow has its turn."""
        self._slices.resume(self)


class Slices:
    """Runs computations slice by slice.

    ``length`` of a slice and ``turn``, the total in one turn of the reactor, are seconds.  With a ``length`` below 0 every
    checkpoint suspends.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        *,
        length: float = SLICE_SECONDS,
        turn: float = TURN_SECONDS,
    ) -> None:
        self._reactor = reactor
        self._length = length
        self._turn = turn
        #: decides whose turn it is while several flows compete; without it they take turns here
        self.scheduler: ThreadScheduler | None = None
        self._idle: list[Worker] = []
        self._trees: LargeTrees[Suspended] = LargeTrees()
        self._ready: dict[Flow | None, deque[Suspended]] = {}  # the flow that was served last is at the end
        self._used = 0.0  # seconds used in this turn
        self._scheduled = False

    def run(
        self, job: Callable[[Argument], Result], argument: Argument, computation: Computation
    ) -> Result | Failure | Suspended:
        """Returns what ``job(argument)`` returns, or Suspended (pass it to ``wait``).  A job catches its exceptions."""
        worker = self._idle.pop() if self._idle else Worker(self)
        worker.computation = computation
        outcome: Result | Failure | Suspended = self._go(worker, (job, argument))
        return outcome

    def wait(self, suspended: Suspended, owner: Owner) -> None:
        """Queues the next slice; ``owner`` gets the result when the computation has ended."""
        suspended.owner = owner
        flow, worker = owner.flow, suspended.worker
        if worker.tree_bytes and worker.counted_for is None and flow is not None:
            worker.counted_for = flow
            if not self._trees.begin(flow, suspended, worker.tree_bytes):
                return
        self._queue(suspended)

    def _queue(self, suspended: Suspended) -> None:
        flow = suspended.owner.flow
        scheduler = self.scheduler
        if scheduler is not None and flow is not None and scheduler.shared():
            suspended.flow = flow
            scheduler.wait(suspended)
            return
        queue = self._ready.get(flow)
        if queue is None:
            queue = self._ready[flow] = deque()
        queue.append(suspended)
        self._schedule()

    def call(self, function: Callable[..., Result], *arguments: object) -> Deferred[Result]:
        """Runs a function that belongs to no request, in slices.  Fires with its result."""
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
                self._schedule()
            if switched is _SUSPENDED:
                return Suspended(worker, self)
        if worker.tree_bytes:
            self._free_tree(worker)
        result, worker.result = worker.result, None
        worker.computation = None  # type: ignore[assignment]  # an idle worker keeps nothing alive
        if len(self._idle) < _MAX_IDLE_WORKERS:
            self._idle.append(worker)
        else:
            worker.throw()  # it ends: nothing else would free it
        return result

    def _free_tree(self, worker: Worker) -> None:
        """Continues what has waited until this computation was over."""
        size, flow = worker.tree_bytes, worker.counted_for
        worker.tree_bytes, worker.counted_for = 0, None
        if flow is not None:
            self._end_tree(flow, size, self._reactor.seconds() + _MAX_FREEING_SECONDS)

    def _end_tree(self, flow: Flow, size: int, until: float) -> None:
        """Once the tree is freed, which is done in slices too; at the latest when it is ``until``."""
        busy = freeing.busy
        if busy is not None and busy() and self._trees.is_awaited(flow) and self._reactor.seconds() < until:
            self._reactor.callLater(_FREEING_CHECK_SECONDS, self._end_tree, flow, size, until)
            return
        for suspended in self._trees.end(flow, size):
            self._queue(suspended)

    def length(self) -> float:
        """Seconds of a slice that begins now."""
        length = self._length
        return _MIN_SLICE_SECONDS if self._used >= self._turn and length > _MIN_SLICE_SECONDS else length

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._serve)

    def _serve(self) -> None:
        """Runs one slice of each flow in turn, until the turn is used up; at least one slice.

        Computations that began since the reactor last polled its sockets count too: it polls them again only after this.
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
            except Exception:  # a fault of one owner must not stop the others
                log.failure("what came after a long computation has failed")
            if self._used >= left or self._length < 0:
                break
        self._used = 0.0
        if ready:
            self._schedule()

    def resume(self, suspended: Suspended) -> None:
        """Runs one slice of it."""
        owner = suspended.owner
        owner.resumed()
        result = self._go(suspended.worker, ())
        if isinstance(result, Suspended):
            owner.suspended()
            self.wait(result, owner)
        else:
            owner.finished(result)


class _Call(Generic[Result]):
    """A function of ``Slices.call``: owner and computation in one."""

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
