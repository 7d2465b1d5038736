"""Background work: coroutines whose steps run in slices (ADR 18).

This module knows the background work of each reactor, such as the queues of controllers: how it is run, and whether it is done.
Upstream has no equivalent: goroutines do not block each other, and tests that wait for controllers poll.
"""

from __future__ import annotations

from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from kapi.process.driver import Call, Running, Sliced

_calls: WeakKeyDictionary[IReactorTime, Call] = WeakKeyDictionary()
Result = TypeVar("Result")


class Work(Protocol):
    def busy(self, within: float) -> bool:
        """Whether work runs now, or will start within this number of seconds."""


_known: WeakKeyDictionary[IReactorTime, WeakSet[Work]] = WeakKeyDictionary()


def run_by(reactor: IReactorTime, call: Call) -> None:
    """Makes the background work on this reactor run by ``call``, in slices."""
    _calls[reactor] = call


def call_of(reactor: IReactorTime) -> Call | None:
    """The function that ``run_by`` has set; None means that each step runs in one piece."""
    return _calls.get(reactor)


def register(reactor: IReactorTime, work: Work) -> None:
    """Includes ``work`` in ``busy`` until it is freed."""
    found = _known.get(reactor)
    if found is None:
        found = _known[reactor] = WeakSet()
    found.add(work)


def busy(reactor: IReactorTime, within: float) -> bool:
    """Whether any registered work of the reactor is busy."""
    return any(work.busy(within) for work in list(_known.get(reactor, ())))


def begin(reactor: IReactorTime, coroutine: Running[Result]) -> Deferred[Result]:
    """``Deferred.fromCoroutine`` whose steps run in slices, if ``kapi.runtime.sliced.run_by`` was called for the reactor."""
    call = call_of(reactor)
    return Deferred.fromCoroutine(coroutine) if call is None else Sliced(coroutine, call).done
