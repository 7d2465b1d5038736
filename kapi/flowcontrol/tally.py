"""What is the same for most requests: one seat, no wait, an end.  Added up, and made observations of when somebody looks."""

from __future__ import annotations

from kapi.machinery.meters import Histogram

_MAX_DURATIONS = 256  # durations between two looks


class Tally:
    """Of one schema at one level; ``runs`` takes the seconds that requests ran."""

    __slots__ = ("dispatched", "estimated", "_labels", "_ran", "_runs")

    def __init__(self, level: str, schema: str, runs: Histogram) -> None:
        self.estimated = 0  # requests estimated at one seat
        self.dispatched = 0  # requests that did not wait
        self._ran: list[float] = []
        self._runs = runs
        self._labels = (level, schema, "regular")

    def ended(self, seconds: float) -> None:
        """A request other than a watch."""
        self._ran.append(seconds)
        if len(self._ran) >= _MAX_DURATIONS:
            self.flush()

    def flush(self) -> None:
        """Brings the histogram up to now."""
        if self._ran:
            self._runs.observe_all(self._ran, *self._labels)
            self._ran.clear()
