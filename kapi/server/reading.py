"""Which connections are read first when many have something to be read.

Much of what a request costs is spent by the time it can be queued: on decrypting, parsing, authenticating.  So of the
connections of a client with a hundred of them only some are read in one turn of the reactor, and those of others in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol


class Reader(Protocol):
    """A connection."""

    flow: int | None  # that its last request was of

    def read_in_turn(self) -> None:
        """Reads what has come.  Raises nothing."""


class Reading:
    """The connections that wait to be read, by flow.

    ``shared`` tells whether there is more than one flow, ``spent`` whether enough was done in this turn of the reactor.
    """

    def __init__(self, reactor: Any, shared: Callable[[], bool], spent: Callable[[], bool]) -> None:
        self.shared = shared
        self._reactor = reactor
        self._spent = spent
        self._ready: dict[int | None, deque[Reader]] = {}  # the flow that was served last is at the end
        self._scheduled = False

    def wait(self, reader: Reader) -> None:
        """``reader`` has something to be read, and is told when."""
        queue = self._ready.get(reader.flow)
        if queue is None:
            queue = self._ready[reader.flow] = deque()
        queue.append(reader)
        self._come_back()

    def _come_back(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._serve)

    def _serve(self) -> None:
        """One of each flow after the other; at least one in a turn."""
        self._scheduled = False
        ready = self._ready
        while ready:
            flow = next(iter(ready))
            queue = ready.pop(flow)
            reader = queue.popleft()
            if queue:
                ready[flow] = queue
            reader.read_in_turn()
            if self._spent():
                break
        if ready:
            self._come_back()
