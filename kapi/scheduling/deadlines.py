"""Deadlines of the requests that wait: one call of the reactor for all that end in the same eighth of a second.

A call of the reactor for each request, which nearly always is cancelled, costs more than the answer at the deadline.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

_SLOT_SECONDS = 0.125  # seconds, by which a deadline may be late


class Expiring(Protocol):
    """What waits until a deadline."""

    def expire(self) -> None:
        """The time is over.  Raises nothing."""


class Deadlines:
    """``clock`` is the reactor's."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._slots: dict[int, dict[Expiring, None]] = {}
        self._calls: dict[int, IDelayedCall] = {}

    def add(self, waiting: Expiring, deadline: float) -> int:
        """At ``deadline`` (reactor seconds) ``waiting`` expires.  Returns the number that ``remove`` needs."""
        number = math.ceil(deadline / _SLOT_SECONDS)
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            left = max(0.0, number * _SLOT_SECONDS - self._clock.seconds())
            self._calls[number] = self._clock.callLater(left, partial(self._end, number))
        slot[waiting] = None
        return number

    def remove(self, waiting: Expiring, number: int) -> None:
        """It has ended in time."""
        slot = self._slots.get(number)
        if slot is not None:
            slot.pop(waiting, None)
            if not slot:
                del self._slots[number]
                self._calls.pop(number).cancel()

    def _end(self, number: int) -> None:
        del self._calls[number]
        for waiting in self._slots.pop(number):
            waiting.expire()
