"""A coroutine whose steps run in slices (ADR 18), so that a long computation between two waits does not block the reactor.

The background work of each reactor, such as the queues of controllers, is known: how it is run, and whether all of it is done.
Upstream has nothing like it: goroutines do not block each other, and tests that wait for controllers poll.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from kapi.machinery.checkpoint import Interrupted, in_slices
from kapi.request.call import Call

_calls: WeakKeyDictionary[IReactorTime, Call] = WeakKeyDictionary()
Result = TypeVar("Result")
#: the Deferred that a coroutine waits for next, or what it returned
Step = tuple[Deferred[object], None] | tuple[None, Result]


class Work(Protocol):
    def busy(self, within: float) -> bool:
        """Whether something runs now, or will start within so many seconds."""


_known: WeakKeyDictionary[IReactorTime, WeakSet[Work]] = WeakKeyDictionary()


def run_by(reactor: IReactorTime, call: Call) -> None:
    """From now on the work of queues on this reactor is computed by ``call``: in slices."""
    _calls[reactor] = call


def call_of(reactor: IReactorTime) -> Call | None:
    """What ``run_by`` has set; None means that each step runs in one piece."""
    return _calls.get(reactor)


def register(reactor: IReactorTime, work: Work) -> None:
    """Counts ``work`` in ``busy`` until it is garbage."""
    found = _known.get(reactor)
    if found is None:
        found = _known[reactor] = WeakSet()
    found.add(work)


def busy(reactor: IReactorTime, within: float) -> bool:
    """Whether any registered work of the reactor is busy."""
    return any(work.busy(within) for work in list(_known.get(reactor, ())))


def begin(reactor: IReactorTime, coroutine: Coroutine[Deferred[object], object, Result]) -> Deferred[Result]:
    """As ``Deferred.fromCoroutine``, but steps run in slices when ``kapi.runtime.sliced.run_by`` was called for the reactor."""
    call = call_of(reactor)
    return Deferred.fromCoroutine(coroutine) if call is None else Sliced(coroutine, call).done


class Sliced(Generic[Result]):
    """``done`` fires with the result of the coroutine; ``call`` runs each step, which ends at the next wait."""

    def __init__(self, coroutine: Coroutine[Deferred[object], object, Result], call: Call) -> None:
        self.done: Deferred[Result] = Deferred(self._cancel)
        self._coroutine = coroutine
        self._call = call
        self._awaited: Deferred[object] | Deferred[Step[Result] | Failure]
        self._compute(None)

    def _compute(self, failure: Failure | None) -> None:
        self._awaited = work = self._call(self._step, failure)
        work.addCallbacks(self._take, self._failed)

    def _step(self, failure: Failure | None) -> Step[Result] | Failure:
        """The Deferred that the coroutine waits for next, or None and what it returned; or why it ended."""
        coroutine = self._coroutine
        try:
            awaited = coroutine.send(None) if failure is None else failure.throwExceptionIntoGenerator(coroutine)
            while awaited is in_slices:
                awaited = coroutine.send(None)
        except StopIteration as stop:
            return None, stop.value
        except Interrupted as interrupted:
            return Failure(interrupted.error)
        except Exception:
            return Failure()
        return awaited, None

    def _take(self, outcome: Step[Result]) -> None:
        awaited, result = outcome
        if awaited is not None:
            self._awaited = awaited
            awaited.addBoth(self._come)
        elif not self.done.called:
            self.done.callback(result)  # type: ignore[arg-type]  # the second of a pair is None where the first is not

    def _come(self, result: object) -> object:
        """The coroutine reads a result from the Deferred itself; a failure is thrown into it."""
        failure = result if isinstance(result, Failure) else None
        self._compute(failure)
        return result if failure is None else None

    def _failed(self, failure: Failure) -> None:
        if not self.done.called:
            self.done.errback(failure)

    def _cancel(self, _: Deferred[Result]) -> None:
        self._awaited.cancel()
