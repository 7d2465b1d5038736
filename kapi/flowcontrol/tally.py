"""Counts ordinary requests - one seat, no wait - cheaply; histograms are brought up to date at a scrape."""

from __future__ import annotations

from kapi.machinery.meters import Histogram

_MAX_DURATIONS = 256  # kept before they are moved to the histogram


class Tally:
    """Counts of one schema at one level; ``runs`` is the histogram of the seconds that requests ran."""

    __slots__ = ("dispatched", "estimated", "_labels", "_ran", "_runs")

    def __init__(self, level: str, schema: str, runs: Histogram) -> None:
        self.estimated = 0  # requests estimated at one seat
        self.dispatched = 0  # requests that did not wait
        self._ran: list[float] = []
        self._runs = runs
        self._labels = (level, schema, "regular")

    def ended(self, seconds: float) -> None:
        """Counts a request, not a watch, that ran for ``seconds``."""
        self._ran.append(seconds)
        if len(self._ran) >= _MAX_DURATIONS:
            self.flush()

    def flush(self) -> None:
        """Moves the durations into the histogram."""
        if self._ran:
            self._runs.observe_all(self._ran, *self._labels)
            self._ran.clear()
