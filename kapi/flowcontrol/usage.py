"""The utilization of a priority level over time, and its demand for seats in one adjustment period.

Upstream: ``metrics/timing_ratio_histogram.go``, ``fairqueuing/integrator.go``.

Upstream observes the ratios "at the end of every nanosecond".  Here a change is only recorded.  The histograms of the time in
each state are computed at a scrape, when the limits change, or after many changes.
"""

from __future__ import annotations

import math
from bisect import bisect_left

_SMOOTHING = 0.977  # weight of the previous periods in the smoothed demand
_MAX_CHANGES = 512  # changes that are recorded before they are moved to the histograms
_NANOSECONDS = 1e9
SEATS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
REQUESTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0)
DEMAND = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0)
#: the state of a level: seats in use, running requests, waiting requests, seats in use and requested by waiting requests
State = tuple[int, int, int, int]


class Demand:
    """Seats as a function of time; the caller measures the time and adds the pieces."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._sum = 0.0
        self._squares = 0.0
        self.peak = 0  # the highest demand in this period so far
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


class Ratios:
    """A histogram of ratios over time: nanoseconds by upper bound, and the sum of ratio times nanoseconds."""

    __slots__ = ("bounds", "row")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.row = [0.0] * (len(bounds) + 2)

    def add(self, ratio: float, seconds: float) -> None:
        self.row[bisect_left(self.bounds, ratio)] += seconds * _NANOSECONDS
        self.row[-1] += ratio * seconds * _NANOSECONDS


class Usage:
    """The utilization of one level.  Ratios are relative to its limit and its queues' capacity; ``now`` is reactor seconds."""

    def __init__(self, now: float) -> None:
        self.wanted = Demand()
        self.seats, self.demand = Ratios(SEATS), Ratios(DEMAND)
        self.waiting, self.executing = Ratios(REQUESTS), Ratios(REQUESTS)
        self._limit = self._capacity = 1.0
        self._since = now
        self._state: State = (0, 0, 0, 0)
        self._changes: list[tuple[float, State]] = []  # changes since the last ``advance``

    def change(self, now: float, state: State) -> None:
        self._changes.append((now, state))
        if len(self._changes) >= _MAX_CHANGES:
            self._flush()

    def sample(self, now: float) -> None:
        """Ends an adjustment period, and computes the demand for seats."""
        self.advance(now)
        self.wanted.sample(self._state[3])

    def limits(self, now: float, limit: int, capacity: int) -> None:
        """Sets the limit (seats) and the capacity of the queues (requests) from ``now`` on."""
        self.advance(now)
        self._limit, self._capacity = float(max(1, limit)), float(max(1, capacity))

    def advance(self, now: float) -> None:
        """Computes the histograms up to ``now``."""
        self._changes.append((now, self._changes[-1][1] if self._changes else self._state))
        self._flush()

    def _flush(self) -> None:
        lasted: dict[State, float] = {}  # seconds
        since, state, peak = self._since, self._state, self.wanted.peak
        for now, following in self._changes:
            if now > since:
                lasted[state] = lasted.get(state, 0.0) + now - since
                since = now
            state = following
            if state[3] > peak:
                peak = state[3]
        self._changes.clear()
        self._since, self._state, self.wanted.peak = since, state, peak
        for (seats, executing, waiting, wanted), seconds in lasted.items():
            self.seats.add(seats / self._limit, seconds)
            self.executing.add(executing / self._limit, seconds)
            self.waiting.add(waiting / self._capacity, seconds)
            self.demand.add(wanted / self._limit, seconds)
            self.wanted.lasted(wanted, seconds)
