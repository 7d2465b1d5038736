"""A queue of calls that are made in order, although some of them take long (ADR 18).

A long call runs in slices, at most one in a turn of the reactor, and the calls that are added meanwhile wait.  When nothing
waits, the callers of ``add`` make short calls themselves, at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery.checkpoint import checkpoint
from kapi.process.driver import Call

log = Logger()


class InOrder:
    """``call`` runs a function in slices, ``later`` runs one in a later turn.  The error of a call is logged."""

    def __init__(self, call: Call, later: Callable[[Callable[[], object]], object]) -> None:
        self._call = call
        self._later = later
        #: whether it is long, function and arguments; the first one is being called
        self._waiting: deque[tuple[bool, Callable[..., object], tuple[object, ...]]] = deque()
        self._working = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, function: Callable[..., object], *arguments: object, long: bool) -> None:
        """Adds a call, to be made after all waiting calls."""
        self._waiting.append((long, function, arguments))
        if len(self._waiting) == 1:
            self._begin()

    def done(self) -> Deferred[None] | None:
        """None when no call waits; otherwise fires after the last call that waits now, in a later turn."""
        if not self._waiting:
            return None
        done: Deferred[None] = Deferred()
        self.add(self._later, lambda: done.callback(None), long=False)
        return done

    def clear(self) -> int:
        """Drops the calls that have not begun.  Returns how many."""
        begun = int(self._working)
        dropped = len(self._waiting) - begun
        while len(self._waiting) > begun:
            self._waiting.pop()
        return dropped

    def _begin(self) -> None:
        if self._waiting and not self._working:
            self._working = True
            self._call(self._work).addBoth(self._go_on)

    def _work(self) -> None:
        """Makes the first call, and the short calls after it."""
        waiting = self._waiting
        _, function, arguments = waiting[0]
        while True:
            try:
                function(*arguments)
            except Exception:
                log.failure("a call of a queue has failed")
            waiting.popleft()
            if not waiting or waiting[0][0]:
                return
            _, function, arguments = waiting[0]
            checkpoint()

    def _go_on(self, result: Failure | None) -> None:
        self._working = False
        if isinstance(result, Failure):
            log.failure("a call of a queue was not made", result)
            if self._waiting:
                self._waiting.popleft()
        if self._waiting:
            self._later(self._begin)
