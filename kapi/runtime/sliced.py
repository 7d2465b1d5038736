"""A coroutine whose steps run in slices (ADR 18), so that a long computation between two waits does not block the reactor."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from kapi.machinery.checkpoint import Interrupted, in_slices
from kapi.request.call import Call
from kapi.runtime.work import call_of

Result = TypeVar("Result")


def begin(reactor: IReactorTime, coroutine: Coroutine[Deferred[object], object, Result]) -> Deferred[Result]:
    """As ``Deferred.fromCoroutine``, but steps run in slices when ``kapi.runtime.work.run_by`` was called for the reactor."""
    call = call_of(reactor)
    return Deferred.fromCoroutine(coroutine) if call is None else Sliced(coroutine, call).done


#: the Deferred that a coroutine waits for next, or what it returned
Step = tuple[Deferred[object], None] | tuple[None, Result]


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
