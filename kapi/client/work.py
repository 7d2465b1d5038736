"""What works besides requests, by reactor: how it runs, and whether all of it is done.

Upstream has nothing like it: a goroutine holds up nobody, and tests that wait for controllers poll.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from twisted.internet.interfaces import IReactorTime

from kapi.request.call import Call


class Work(Protocol):
    def busy(self, within: float) -> bool:
        """Whether something is done now, or will be begun within so many seconds."""


_known: WeakKeyDictionary[IReactorTime, WeakSet[Work]] = WeakKeyDictionary()
_calls: WeakKeyDictionary[IReactorTime, Call] = WeakKeyDictionary()


def run_by(reactor: IReactorTime, call: Call) -> None:
    """What queues on this reactor do from now on is computed by ``call``: in slices."""
    _calls[reactor] = call


def call_of(reactor: IReactorTime) -> Call | None:
    """None: each step runs in one piece."""
    return _calls.get(reactor)


def register(reactor: IReactorTime, work: Work) -> None:
    """It is known as long as it lives."""
    found = _known.get(reactor)
    if found is None:
        found = _known[reactor] = WeakSet()
    found.add(work)


def busy(reactor: IReactorTime, within: float) -> bool:
    """Whether anything on the reactor is."""
    return any(work.busy(within) for work in list(_known.get(reactor, ())))
