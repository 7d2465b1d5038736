"""Deadlines of the requests that wait: one call of the reactor for all that end in the same eighth of a second.

A call of the reactor for each request, which nearly always is cancelled, costs more than what is told at its end.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Protocol

_SLOT = 0.125  # seconds, by which a deadline may be late


class Late(Protocol):
    def expire(self) -> None:
        """The time is over.  Raises nothing."""


class Deadlines:
    """``clock`` is the reactor's."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._slots: dict[int, dict[Late, None]] = {}
        self._calls: dict[int, Any] = {}

    def add(self, late: Late, deadline: float) -> int:
        """At ``deadline`` (reactor seconds) ``late`` is told; gives what ``remove`` is to be given."""
        number = math.ceil(deadline / _SLOT)
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            left = max(0.0, number * _SLOT - self._clock.seconds())
            self._calls[number] = self._clock.callLater(left, partial(self._end, number))
        slot[late] = None
        return number

    def remove(self, late: Late, number: int) -> None:
        """It has ended in time."""
        slot = self._slots.get(number)
        if slot is not None:
            slot.pop(late, None)
            if not slot:
                del self._slots[number]
                self._calls.pop(number).cancel()

    def _end(self, number: int) -> None:
        del self._calls[number]
        for late in self._slots.pop(number):
            late.expire()
