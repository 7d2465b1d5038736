"""Deadlines of waiting requests: one delayed call for all that end within the same eighth of a second.

A delayed call for each request, nearly always cancelled, would cost more than it gains.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

_SLOT_SECONDS = 0.125  # the most by which a deadline may be late


class Expiring(Protocol):
    """Something with a deadline."""

    def expire(self) -> None:
        """Called when the deadline has passed.  Raises nothing."""


class Deadlines:
    """Calls ``expire`` of what has not ended by its deadline.  ``clock`` is the reactor's."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._slots: dict[int, dict[Expiring, None]] = {}
        self._calls: dict[int, IDelayedCall] = {}

    def add(self, waiting: Expiring, deadline: float) -> int:
        """Lets ``waiting`` expire at ``deadline`` (reactor seconds).  Returns the slot's number for ``remove``."""
        number = math.ceil(deadline / _SLOT_SECONDS)
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            left = max(0.0, number * _SLOT_SECONDS - self._clock.seconds())
            self._calls[number] = self._clock.callLater(left, partial(self._end, number))
        slot[waiting] = None
        return number

    def remove(self, waiting: Expiring, number: int) -> None:
        """Forgets ``waiting``, which has ended in time; ``number`` is what ``add`` returned."""
        slot = self._slots.get(number)
        if slot is not None:
            slot.pop(waiting, None)
            if not slot:
                del self._slots[number]
                call = self._calls.pop(number, None)
                if call is not None:
                    call.cancel()

    def _end(self, number: int) -> None:
        del self._calls[number]
        # The end of one may end others of the slot: these are removed meanwhile.
        while (slot := self._slots.get(number)) is not None:
            waiting = next(iter(slot))
            self.remove(waiting, number)
            waiting.expire()
