"""The demand for seats in one adjustment period: average, deviation and peak (upstream: ``fairqueuing/integrator.go``)."""

from __future__ import annotations

import math

_SMOOTHING = 0.977  # weight of the previous periods in the smoothed demand


class Demand:
    """Seats as a function of time; the caller keeps the time and adds the pieces."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._sum = 0.0
        self._squares = 0.0
        self.peak = 0  # of this period so far
        self.average = 0.0
        self.deviation = 0.0
        self.high = 0
        self.smoothed = 0.0

    def lasted(self, value: int, seconds: float) -> None:
        """Adds a piece: the demand was ``value`` for ``seconds``."""
        self._elapsed += seconds
        self._sum += value * seconds
        self._squares += value * value * seconds

    def sample(self, value: int) -> None:
        """Ends a period and computes its figures; the next period begins with ``value``."""
        elapsed = self._elapsed
        self.high = self.peak
        if elapsed > 0:
            self.average = self._sum / elapsed
            variance = self._squares / elapsed - self.average * self.average
            self.deviation = math.sqrt(max(0.0, variance))
            envelope = self.average + self.deviation
            self.smoothed = max(envelope, _SMOOTHING * self.smoothed + (1 - _SMOOTHING) * envelope)
        self._elapsed, self._sum, self._squares, self.peak = 0.0, 0.0, 0.0, value
