"""Fairness of CPU: what one turn of the reactor may spend on requests that have to queue.

Upstream's seats are threads of the scheduler; here all requests run on one thread, one after the other, and a turn takes
as long as everything that was ready in it.  So a turn has a budget of time: what comes after it is spent waits in the fair
queues like a request without a seat, and the next turn takes from each flow in its turn.  A client with a hundred
connections thus fills its own queues, and not everybody's turn; one that has had less than all who wait goes at once.

While all requests are of one flow there is nobody to be fair to, and nothing is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

BUDGET = 0.0005  # seconds
_MEMORY = 1.0  # seconds for which turns stay shared after the last change from one flow to another


class Turn:
    """Shared by all levels.  ``timer`` gives seconds; ``budget`` 0 is no bound."""

    def __init__(self, reactor: Any, budget: float = BUDGET, timer: Callable[[], float] = time.perf_counter) -> None:
        self._reactor = reactor
        self._budget = budget
        self._timer = timer
        self._began: float | None = None
        self._flow: int | None = None  # of the last request; None when nobody tells
        self._until = 0.0  # reactor seconds
        #: called in each new turn while somebody waits; True when somebody still does
        self.on_turn: Callable[[], bool] = lambda: False

    def met(self, flow: int) -> None:
        """There is a request of this flow."""
        if flow != self._flow:
            if self._flow is not None:
                self._until = self._reactor.seconds() + _MEMORY
            self._flow = flow

    def shared(self) -> bool:
        """Whether more than one flow was here of late; True when nobody tells of flows."""
        return self._flow is None or self._reactor.seconds() < self._until

    def spent(self) -> bool:
        """Whether the budget of this turn is used up."""
        if not self._budget or not self.shared():
            return False
        if self._began is None:
            self._began = self._timer()
            self._reactor.callLater(0, self._next)
            return False
        return self._timer() - self._began > self._budget

    def _next(self) -> None:
        self._began = None
        if self.on_turn() and self._began is None:
            self.spent()  # there is more to do: come back
