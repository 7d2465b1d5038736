"""Drives coroutines in steps, from one awaited Deferred to the next; each step runs in slices (ADR 18).

``Deferred.fromCoroutine`` runs a step in one piece, so a long computation between two waits would block the reactor.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from kapi.machinery.checkpoint import Interrupted, in_slices

Result = TypeVar("Result")
Running = Coroutine[Deferred[object], object, Result]


class Call(Protocol):
    """Runs a function with arguments, in slices (``slices``) or, as Twisted's ``execute``, in one piece."""

    def __call__(self, function: Callable[..., Result], /, *arguments: object) -> Deferred[Result]: ...


def advance(coroutine: Running[Result], failure: Failure | None = None) -> Result | Failure | Deferred[object]:
    """Runs a coroutine to its next Deferred or to its end; ``failure`` is raised at the place where it waits.

    Returns the Deferred, the coroutine's result (never a Deferred), or the Failure that has ended it.
    """
    try:
        if failure is None:
            awaited: Any = coroutine.send(None)
        else:
            awaited = failure.throwExceptionIntoGenerator(coroutine)
        while awaited is in_slices:
            awaited = coroutine.send(None)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    except Interrupted as interrupted:
        return Failure(interrupted.error)
    except BaseException:
        return Failure()
    stopped_at: Deferred[object] = awaited
    return stopped_at


def failure_of(result: object) -> Failure | None:
    """The failure to raise in a coroutine whose Deferred has fired with ``result``; it reads results from the Deferred itself."""
    return result if isinstance(result, Failure) else None


def trap_cancelled(failure: Failure) -> None:
    """An errback for work that is cancelled when its owner stops, which is not an error."""
    failure.trap(CancelledError)


class Sliced(Generic[Result]):
    """``done`` fires with the result of the coroutine; ``call`` runs each step."""

    def __init__(self, coroutine: Running[Result], call: Call) -> None:
        self.done: Deferred[Result] = Deferred(self._cancel)
        self._coroutine = coroutine
        self._call = call
        self._awaited: Deferred[Any]
        self._step(None)

    def _step(self, failure: Failure | None) -> None:
        self._awaited = work = self._call(self._advance, failure)
        work.addCallbacks(self._take, self._end)

    def _advance(self, failure: Failure | None) -> tuple[Result | Deferred[object]] | Failure:
        outcome = advance(self._coroutine, failure)
        return outcome if isinstance(outcome, Failure) else (outcome,)  # a Deferred cannot be the result of another one

    def _take(self, outcome: tuple[Result | Deferred[object]]) -> None:
        (found,) = outcome
        if isinstance(found, Deferred):
            self._awaited = found
            found.addBoth(self._go_on)
        else:
            self._end(found)

    def _go_on(self, result: object) -> object:
        failure = failure_of(result)
        self._step(failure)
        return result if failure is None else None

    def _end(self, result: Result | Failure) -> None:
        if not self.done.called:
            self.done.callback(result)  # a Failure goes to the errbacks

    def _cancel(self, _: Deferred[Result]) -> None:
        self._awaited.cancel()
