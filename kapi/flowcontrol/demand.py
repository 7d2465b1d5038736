"""How many seats were wanted over a while: average, deviation and peak (upstream: ``fairqueuing/integrator.go``)."""

from __future__ import annotations

import math
from collections.abc import Callable

from kapi.flowcontrol.allocation import half_up

_SMOOTHING = 0.977  # how much of the envelope of before counts, per adjustment


class Demand:
    """Seats as a function of time; ``seconds`` is the reactor's clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._last = seconds()
        self._start = self._last
        self._value = 0.0
        self._sum = 0.0
        self._squares = 0.0
        self._peak = 0.0
        self.average = 0.0
        self.deviation = 0.0
        self.high = 0
        self.smoothed = 0.0

    def set(self, value: float, now: float | None = None) -> None:
        if now is None:
            now = self._seconds()
        if now > self._last:
            self._pass(now)
        self._value = value
        if value > self._peak:
            self._peak = value

    def _pass(self, now: float) -> None:
        elapsed = now - self._last
        if elapsed > 0:
            self._sum += self._value * elapsed
            self._squares += self._value * self._value * elapsed
            self._last = now

    def sample(self) -> None:
        """Closes a period: the figures are about it, and the next begins."""
        now = self._seconds()
        self._pass(now)
        elapsed = now - self._start
        self.high = half_up(self._peak)
        if elapsed > 0:
            self.average = self._sum / elapsed
            variance = self._squares / elapsed - self.average * self.average
            self.deviation = math.sqrt(max(0.0, variance))
            envelope = self.average + self.deviation
            self.smoothed = max(envelope, _SMOOTHING * self.smoothed + (1 - _SMOOTHING) * envelope)
        self._start, self._sum, self._squares, self._peak = now, 0.0, 0.0, self._value
