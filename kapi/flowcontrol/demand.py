"""How many seats were wanted over a while: average, deviation and peak (upstream: ``fairqueuing/integrator.go``)."""

from __future__ import annotations

import math

_SMOOTHING = 0.977  # how much of the envelope of before counts, per adjustment


class Demand:
    """Seats as a function of time; its pieces are added by the caller, which keeps the time."""

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
        """It was ``value`` for so long."""
        self._elapsed += seconds
        self._sum += value * seconds
        self._squares += value * value * seconds

    def sample(self, value: int) -> None:
        """Closes a period: the figures are about it, and the next begins with ``value``."""
        elapsed = self._elapsed
        self.high = self.peak
        if elapsed > 0:
            self.average = self._sum / elapsed
            variance = self._squares / elapsed - self.average * self.average
            self.deviation = math.sqrt(max(0.0, variance))
            envelope = self.average + self.deviation
            self.smoothed = max(envelope, _SMOOTHING * self.smoothed + (1 - _SMOOTHING) * envelope)
        self._elapsed, self._sum, self._squares, self.peak = 0.0, 0.0, 0.0, value
