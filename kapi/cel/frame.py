"""The state of one evaluation: variables, cost, and the bounds of what it may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from kapi.cel.errors import BudgetExceeded, TimeExceeded
from kapi.cel.types import Value
from kapi.machinery.checkpoint import checkpoint, engage

Step = Callable[["Frame"], Value]
_ELEMENTS_PER_LOOK = 32  # elements of a list between two looks at the clock

#: code points, bytes and elements one evaluation may allocate
MAX_ALLOCATION = 8_000_000
#: cost of a single call, or elements of a comparison, that is not begun when time is short
LONG = 20_000
#: units that are not allocated at once when time is short
_LARGE_UNITS = 200_000


class Frame:
    """The state of one evaluation."""

    __slots__ = ("globals", "slots", "cost", "limit", "deadline", "allocated")

    def __init__(self, variables: Mapping[str, Value], slots: int, limit: int, deadline: float) -> None:
        engage()  # a short expression may loop for long
        self.globals = variables
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit
        self.deadline = deadline
        self.allocated = 0

    def grow(self, amount: int) -> None:
        """Accounts for an allocation."""
        checkpoint()
        self.allocated += amount
        if self.allocated > MAX_ALLOCATION:
            raise BudgetExceeded()
        if self.deadline and (amount > _LARGE_UNITS or time.monotonic() > self.deadline):
            raise TimeExceeded()

    def tick(self) -> None:
        """Called once an iteration."""
        checkpoint()
        if self.cost > self.limit:
            raise BudgetExceeded()
        if self.deadline and time.monotonic() > self.deadline:
            raise TimeExceeded()

    def steps(self, items: Iterable[Value]) -> Iterator[Value]:
        """The items, with a tick before every so many of them: whoever walks a list by itself walks it so."""
        left = 0
        for item in items:
            if not left:
                left = _ELEMENTS_PER_LOOK
                self.tick()
            left -= 1
            yield item
