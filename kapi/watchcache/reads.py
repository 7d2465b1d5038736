"""Counts how clients read a cache: lists, and how long they wait (upstream: apiserver ``storage/cacher/metrics``)."""

from __future__ import annotations

from bisect import bisect_left

WAITS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0)  # bounds of the histogram, in seconds


class Reads:
    """The reads of one cache."""

    __slots__ = ("lists", "fetched", "returned", "consistent", "failed", "waits")

    def __init__(self) -> None:
        self.lists = 0
        self.fetched = 0  # objects that lists tested
        self.returned = 0  # objects that lists returned
        self.consistent = 0  # lists of the newest state
        self.failed = 0  # consistent lists that failed
        #: how long reads waited for a revision: counts by ``WAITS``, then the sum in seconds
        self.waits = [0.0] * (len(WAITS) + 2)

    def listed(self, fetched: int, returned: int) -> None:
        self.lists += 1
        self.fetched += fetched
        self.returned += returned

    def waited(self, seconds: float) -> None:
        self.waits[bisect_left(WAITS, seconds)] += 1
        self.waits[-1] += seconds
