"""What has to be done in the order in which it comes, though some of it takes long (ADR 18).

What takes long runs in slices, one such thing a turn of the reactor, and what comes meanwhile waits.  Whoever adds to it does
at once what takes no time as long as nothing waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery.checkpoint import checkpoint
from kapi.request.call import Call

log = Logger()


class InOrder:
    """``call`` runs what takes long, ``later`` a function in a later turn.  An error of one thing is logged."""

    def __init__(self, call: Call, later: Callable[[Callable[[], object]], object]) -> None:
        self._call = call
        self._later = later
        #: whether it takes long, and what to call with what; the first is the one that is being done
        self._waiting: deque[tuple[bool, Callable[..., object], tuple[object, ...]]] = deque()
        self._working = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, function: Callable[..., object], *arguments: object, long: bool) -> None:
        """To be called when all that waits has been done."""
        self._waiting.append((long, function, arguments))
        if len(self._waiting) == 1:
            self._begin()

    def done(self) -> Deferred[None] | None:
        """None when nothing waits; it is called back in a later turn than that in which the last of it has been done."""
        if not self._waiting:
            return None
        done: Deferred[None] = Deferred()
        self.add(self._later, lambda: done.callback(None), long=False)
        return done

    def clear(self) -> int:
        """Lets go what has not begun; how many that were."""
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
        """The first, and what takes no time after it."""
        waiting = self._waiting
        _, function, arguments = waiting[0]
        while True:
            try:
                function(*arguments)
            except Exception:
                log.failure("what waited for its turn has failed")
            waiting.popleft()
            if not waiting or waiting[0][0]:
                return
            _, function, arguments = waiting[0]
            checkpoint()

    def _go_on(self, result: Failure | None) -> None:
        self._working = False
        if isinstance(result, Failure):
            log.failure("what waited for its turn was not done", result)
            if self._waiting:
                self._waiting.popleft()
        if self._waiting:
            self._later(self._begin)
