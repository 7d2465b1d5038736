"""Timers: the deadlines of many requests, and periodic calls that go on after errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

_SLOT_SECONDS = 0.125  # the most by which a deadline may be late
log = Logger()


class Expiring(Protocol):
    """Something with a deadline."""

    def expire(self) -> None:
        """Called when the deadline has passed.  Raises nothing."""


class Deadlines:
    """Calls ``expire`` of each object that is not removed before its deadline.  ``clock`` is the reactor's."""

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
        """Removes ``waiting``, which has ended in time; ``number`` is the result of ``add``."""
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
        # The end of one object may remove others from the slot.
        while (slot := self._slots.get(number)) is not None:
            waiting = next(iter(slot))
            self.remove(waiting, number)
            waiting.expire()


class Repeated:
    """Calls ``function`` periodically; waits for a Deferred that it returns.  ``what`` is the subject of the error's log line."""

    def __init__(self, function: Callable[[], Deferred[None] | None], reactor: IReactorTime, what: str) -> None:
        self._function = function
        self._what = what
        self._logged = ""  # the error of the last calls
        self._loop = LoopingCall(self._call)
        self._loop.clock = reactor

    def start(self, every: float, *, now: bool = False) -> None:
        """Calls the function every ``every`` seconds, with ``now`` also at once.  Does nothing when it was started before."""
        if not self._loop.running:
            self._loop.start(every, now=now)

    def stop(self) -> None:
        """Ends the calls; a call in progress completes."""
        if self._loop.running:
            self._loop.stop()

    def _call(self) -> Deferred[None] | None:
        try:
            result = self._function()
        except Exception:
            self._failed(Failure())
            return None
        if isinstance(result, Deferred):
            return result.addCallbacks(self._succeeded, self._failed)
        self._logged = ""
        return None

    def _succeeded(self, _: object) -> None:
        self._logged = ""

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return
        error = f"{failure.type}: {failure.getErrorMessage()}"
        if error != self._logged:  # the same error is logged once
            self._logged = error
            log.failure("{what} failed; it is tried again", failure, what=self._what)
