"""Whose work is next when there is more of it than a turn of the reactor should take.

Much of what a request costs is spent before it can be queued: on decrypting, parsing, authenticating; and much when what it
waited for has come, as the store answers many at once.  So of the connections of a client with a hundred of them only some
are read in one turn, of its requests only some go on, and those of others in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol


class Worker(Protocol):
    """A connection with something to be read, or a request that can go on."""

    flow: int | None  # as priority and fairness has found

    def take_turn(self) -> None:
        """Does what there is to do.  Raises nothing."""


class Rounds:
    """The workers that wait for their turn, by flow.

    ``shared`` tells whether there is more than one flow, ``spent`` whether enough was done in this turn of the reactor.
    """

    def __init__(self, reactor: Any, shared: Callable[[], bool], spent: Callable[[], bool]) -> None:
        self.shared = shared
        self._reactor = reactor
        self._spent = spent
        self._ready: dict[int | None, deque[Worker]] = {}  # the flow that was served last is at the end
        self._scheduled = False

    def wait(self, worker: Worker) -> None:
        """``worker`` has something to do, and is told when."""
        queue = self._ready.get(worker.flow)
        if queue is None:
            queue = self._ready[worker.flow] = deque()
        queue.append(worker)
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
            worker = queue.popleft()
            if queue:
                ready[flow] = queue
            worker.take_turn()
            if self._spent():
                break
        if ready:
            self._come_back()
