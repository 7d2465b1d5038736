"""Encodings of watch events that take long, one after the other.

Hundreds of watches with the same form may get the same large object.  If all of them decoded and encoded it at once, in slices,
each would have a tree of its own meanwhile.  In a queue the second one finds what the first one has made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

Encoding = Callable[[], "Deferred[bytes | None]"]


class EncodingQueue:
    """The encodings of one form."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Deferred[bytes | None], Encoding]] = deque()
        self._busy = False  # one of them runs
        self._beginning = False

    def run(self, encoding: Encoding) -> Deferred[bytes | None]:
        """The result of ``encoding``, which begins when those before it have ended; it may be cancelled."""
        running: list[Deferred[bytes | None]] = []

        def begin() -> Deferred[bytes | None]:
            running.append(encoding())
            return running[0]

        done: Deferred[bytes | None] = Deferred(lambda _: running[0].cancel() if running else None)
        self._waiting.append((done, begin))
        self._begin()
        return done

    def _begin(self) -> None:
        if self._beginning:
            return  # an encoding that ended at once: the loop goes on
        self._beginning = True
        while self._waiting and not self._busy:
            done, begin = self._waiting.popleft()
            if not done.called:
                self._busy = True
                begin().addBoth(self._ended, done)
        self._beginning = False

    def _ended(self, result: bytes | Failure | None, done: Deferred[bytes | None]) -> None:
        self._busy = False
        if not done.called:
            done.callback(result)  # a Failure is an error
        self._begin()
