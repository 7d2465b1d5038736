"""Runs long computations in slices, so that they do not block the reactor (ADR 18).

A request's code runs in a greenlet of a small pool, and mostly ends within its first slice.  Code that may take long calls
``engage``.  If it then comes to a checkpoint (``kapi/machinery/checkpoint.py``) after its slice is used up, it is suspended
there.  It continues in a later turn of the reactor (``turn``).

The large trees that a flow has at a time are limited (``LargeTrees``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary, ref

from greenlet import getcurrent, greenlet
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery import checkpoint, freeing
from kapi.machinery.checkpoint import Interrupted
from kapi.process.shares import Flow
from kapi.process.turn import TURN_SECONDS, Turn

MAX_BYTES = 4 * 1024 * 1024  # of texts whose trees a flow has at once; a single text may be larger
Work = TypeVar("Work")
log = Logger()
Argument = TypeVar("Argument")
Result = TypeVar("Result")
SLICE_SECONDS = 0.0007  # length of a slice: short work gets three fifths of the thread's time beside four large writers
_MIN_SLICE_SECONDS = 0.0005  # first slice of a computation that begins when the turn is over
_MAX_IDLE_WORKERS = 16  # kept for reuse
_MAX_FREEING_SECONDS = 0.5  # the most seconds that a large tree waits until earlier trees are freed
_FREEING_CHECK_SECONDS = 0.01


class _Trees(Generic[Work]):
    """The large trees of one flow: the bytes of their texts, and the waiting work, each with the bytes of its text."""

    __slots__ = ("bytes", "waiting")

    def __init__(self) -> None:
        self.bytes = 0
        self.waiting: deque[tuple[Work, int]] = deque()

    def take(self, size: int) -> bool:
        fits = not self.bytes or self.bytes + size <= MAX_BYTES
        if fits:
            self.bytes += size
        return fits


class LargeTrees(Generic[Work]):
    """Limits the large trees of each flow.  Call ``end`` after each ``begin`` that was True and each returned work."""

    def __init__(self) -> None:
        self._flows: WeakKeyDictionary[Flow, _Trees[Work]] = WeakKeyDictionary()

    def begin(self, flow: Flow, work: Work, size: int) -> bool:
        """Whether ``work`` may make a tree of ``size`` bytes of text now.  Otherwise a later ``end`` returns it."""
        trees = self._flows.get(flow)
        if trees is None:
            trees = self._flows[flow] = _Trees()
        if not trees.waiting and trees.take(size):
            return True
        trees.waiting.append((work, size))
        return False

    def is_awaited(self, flow: Flow) -> bool:
        """Whether work waits for the end of other trees."""
        trees = self._flows.get(flow)
        return trees is not None and bool(trees.waiting)

    def end(self, flow: Flow, size: int) -> list[Work]:
        """Called when a tree of ``size`` bytes is freed.  Returns the work that may continue."""
        trees = self._flows[flow]
        trees.bytes -= size
        found: list[Work] = []
        while trees.waiting and trees.take(trees.waiting[0][1]):
            found.append(trees.waiting.popleft()[0])
        return found


class Computation(Protocol):
    """The state of one computation over all its slices."""

    engaged: bool  # the computation may take long
    committed: bool  # it has visible effects, and can no longer be ended
    interrupt: BaseException | None  # raised in the computation to end it, then None again


class Owner(Protocol):
    """The owner of a suspended computation: notified of its slices, and given its result."""

    flow: Flow | None  # as classified by priority and fairness

    def suspended(self) -> None:
        """Called when another slice is used up."""

    def resumed(self) -> None:
        """Called when the next slice begins."""

    def finished(self, result: object) -> None:
        """Called with the job's result.  Raises nothing."""


class Worker(greenlet):  # type: ignore[misc]  # it has no annotations
    """Runs jobs, one after the other; a job catches its own exceptions."""

    until = 0.0  # end of the slice, in seconds of perf_counter, once the computation has called ``engage``
    tree_bytes = 0  # size of the text of its large tree
    counted_for: Flow | None = None  # the flow for which this tree is counted
    computation: Computation  # set while a job runs
    result: object = None  # result of the last job, until it is read

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
        slices = self._slices()
        assert slices is not None
        self.computation.engaged = True
        self.until = perf_counter() + slices.first()
        return True

    def _end(self) -> None:
        computation = self.computation
        error = computation.interrupt
        if error is not None and not computation.committed:
            computation.interrupt = None
            raise Interrupted(error)


def _work() -> None:
    """The main function of a worker's greenlet.

    The collector never frees a suspended greenlet, nor the arguments of its function: so this function has none.
    """
    while True:
        job, argument = getcurrent().parent.switch()
        try:
            result = job(argument)
        except Interrupted as interrupted:  # raised by a job that does not catch it
            result = Failure(interrupted.error)
        except Exception:
            result = Failure()
        getcurrent().result = result
        del job, argument, result  # an idle worker keeps nothing alive


_SUSPENDED = object()


class Suspended:
    """A computation between two slices.  Its ``owner`` is set by ``Slices.wait``."""

    __slots__ = ("owner", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.owner: Owner


class Slices:
    """Runs computations slice by slice.

    ``length`` of a slice is seconds; below 0 every checkpoint suspends.  ``turn`` decides when the next slice begins; a test need
    not give one.
    """

    def __init__(self, reactor: IReactorTime, turn: Turn | None = None, *, length: float = SLICE_SECONDS) -> None:
        self._reactor = reactor
        self._length = length
        self.turn = turn or Turn(reactor, seconds=TURN_SECONDS if length > 0 else 0.0)
        self._idle: list[Worker] = []
        self._trees: LargeTrees[Suspended] = LargeTrees()

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
        self.turn.wait_long(partial(self._resume, suspended), suspended.owner.flow)

    def first(self) -> float:
        """Seconds of the first slice of a computation that begins now: many may begin in one turn."""
        return min(self._length, _MIN_SLICE_SECONDS) if self.turn.over() else self._length

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
        """Runs one slice."""
        computation = worker.computation
        if computation.engaged:
            worker.until = perf_counter() + (self.first() if value else self._length)
        worker.parent = getcurrent()
        before = checkpoint.current, checkpoint.running
        checkpoint.current, checkpoint.running = worker, worker if computation.engaged else None
        try:
            switched = worker.switch(*value)
        finally:
            checkpoint.current, checkpoint.running = before
        if switched is _SUSPENDED:
            return Suspended(worker)
        if worker.tree_bytes:
            self._free_tree(worker)
        result, worker.result = worker.result, None
        worker.computation = None  # type: ignore[assignment]  # an idle worker keeps nothing alive
        if len(self._idle) < _MAX_IDLE_WORKERS:
            self._idle.append(worker)
        else:
            worker.throw()  # ends the greenlet: nothing else would free it
        return result

    def _free_tree(self, worker: Worker) -> None:
        """Continues work that has waited for the end of this computation."""
        size, flow = worker.tree_bytes, worker.counted_for
        worker.tree_bytes, worker.counted_for = 0, None
        if flow is not None:
            self._end_tree(flow, size, self._reactor.seconds() + _MAX_FREEING_SECONDS)

    def _end_tree(self, flow: Flow, size: int, until: float) -> None:
        """Ends the tree's count once the tree is freed, which happens in slices, too; at the latest at ``until``."""
        busy = freeing.busy
        if busy is not None and busy() and self._trees.is_awaited(flow) and self._reactor.seconds() < until:
            self._reactor.callLater(_FREEING_CHECK_SECONDS, self._end_tree, flow, size, until)
            return
        for suspended in self._trees.end(flow, size):
            self._queue(suspended)

    def _resume(self, suspended: Suspended) -> None:
        """Runs the next slice of a suspended computation."""
        owner = suspended.owner
        owner.resumed()
        result = self._go(suspended.worker, ())
        if isinstance(result, Suspended):
            owner.suspended()
            self.wait(result, owner)
        else:
            owner.finished(result)


class _Call(Generic[Result]):
    """A call of ``Slices.call``: owner and computation in one."""

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
