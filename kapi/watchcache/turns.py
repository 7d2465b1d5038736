"""Shares each turn of the reactor between the watches that send their backlog, or events that waited for a slow client.

Hundreds of clients may begin to watch at the same time, or read again.  Each batch is a millisecond or more of encoding and
encrypting, and other requests must be served in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import thread_time

_TURN_SECONDS = 0.01  # CPU time of all these watches in one turn of the reactor
_MIN_COUNTED_SECONDS = 0.0005  # CPU time; less is not counted


class Turns:
    """``later`` calls a function in the next turn; ``timer`` gives seconds of the thread's CPU."""

    def __init__(self, later: Callable[[Callable[[], None]], object], timer: Callable[[], float] = thread_time) -> None:
        self._later = later
        self._timer = timer
        self._waiting: deque[Callable[[], None]] = deque()
        self._used = 0.0  # seconds used in this turn
        self._scheduled = False

    def run(self, send: Callable[[], None]) -> None:
        """Calls a function that sends some batches: now, or in a later turn when this one is used up.  It raises nothing."""
        if self._waiting or self._used >= _TURN_SECONDS:
            self.wait(send)
        else:
            self._run(send)

    def wait(self, send: Callable[[], None]) -> None:
        """Calls it in a later turn."""
        self._waiting.append(send)
        self._schedule()

    def _run(self, send: Callable[[], None]) -> None:
        began = self._timer()
        send()
        used = self._timer() - began
        if used > _MIN_COUNTED_SECONDS:
            self._used += used
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._later(self._serve)

    def _serve(self) -> None:
        """Serves at least one of the waiting functions.

        Batches that were sent at once since the last poll of the sockets count, too: the next poll comes only after this.
        """
        left = _TURN_SECONDS - self._used
        self._used = 0.0
        for _ in range(len(self._waiting)):
            self._run(self._waiting.popleft())
            if self._used >= left:
                break
        self._used = 0.0
        self._scheduled = False
        if self._waiting:
            self._schedule()
