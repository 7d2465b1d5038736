"""The state of one evaluation: variables, cost and limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from kapi.cel.errors import BudgetExceeded, TimeExceeded
from kapi.cel.types import Value
from kapi.machinery.checkpoint import checkpoint, engage

Step = Callable[["Frame"], Value]
_ELEMENTS_PER_TICK = 32  # of a list between two checks of the time

MAX_ALLOCATION = 8_000_000  # code points, bytes and elements in one evaluation
#: cost of one call, or compared elements, with a time limit: a larger call might exceed the limit before the time is checked
MAX_TIMED_COST = 20_000
#: units that may be allocated at once with a time limit
_MAX_TIMED_ALLOCATION = 200_000


class Frame:
    """The state of one evaluation."""

    __slots__ = ("globals", "slots", "cost", "limit", "deadline", "allocated")

    def __init__(self, variables: Mapping[str, Value], slots: int, limit: int, deadline: float) -> None:
        engage()  # a short expression may run for long
        self.globals = variables
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit
        self.deadline = deadline
        self.allocated = 0

    def grow(self, amount: int) -> None:
        """Counts an allocation.  Raises BudgetExceeded or TimeExceeded."""
        checkpoint()
        self.allocated += amount
        if self.allocated > MAX_ALLOCATION:
            raise BudgetExceeded()
        if self.deadline and (amount > _MAX_TIMED_ALLOCATION or time.monotonic() > self.deadline):
            raise TimeExceeded()

    def tick(self) -> None:
        """Checks the limits; called for each iteration.  Raises BudgetExceeded or TimeExceeded."""
        checkpoint()
        if self.cost > self.limit:
            raise BudgetExceeded()
        if self.deadline and time.monotonic() > self.deadline:
            raise TimeExceeded()

    def steps(self, items: Iterable[Value]) -> Iterator[Value]:
        """The items, with a ``tick`` before every ``_ELEMENTS_PER_TICK``.  Functions that walk a list use it."""
        left = 0
        for item in items:
            if not left:
                left = _ELEMENTS_PER_TICK
                self.tick()
            left -= 1
            yield item
