"""Counts how clients read a cache (lists, and how long they wait), and the events that watches were sent, with their sizes.

Upstream: apiserver ``storage/cacher/metrics``, ``endpoints/metrics`` (WatchEvents).  Sizes are those on the wire; with HTTP/1.1
they include the few bytes that frame a chunk.

A batch goes to many watches in the same form.  So each watch only increments a number; the histogram is updated when the metrics
are scraped, or when many batches have been counted.
"""

from __future__ import annotations

from bisect import bisect_left

from kapi.machinery.meters import exponential

WAITS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0)  # bounds of the histogram, in seconds
SIZES = exponential(1024.0, 2.0, 8)  # bytes
LIST_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0)
_MAX_BATCHES = 500  # counted batches after which the histogram is updated


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


class SentBatch:
    """The sizes of a batch's events in one form, and to how many watches it was sent since the last update of the histogram."""

    __slots__ = ("sizes", "times")

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes  # bytes
        self.times = 0


class Sent:
    """What the watches of one version of a resource were sent."""

    __slots__ = ("_row", "_batches", "lists")

    def __init__(self) -> None:
        self._row = [0.0] * (len(SIZES) + 2)
        self._batches: list[SentBatch] = []
        #: by scope: how long the initial lists of watches took, counts by ``LIST_SECONDS``, then the sum in seconds
        self.lists: dict[str, list[float]] = {}

    def listed(self, scope: str, seconds: float) -> None:
        """Counts that a watch has sent its initial list.  ``scope``: cluster, namespace or resource."""
        row = self.lists.setdefault(scope, [0.0] * (len(LIST_SECONDS) + 2))
        row[bisect_left(LIST_SECONDS, seconds)] += 1
        row[-1] += seconds

    def begin(self, batch: SentBatch) -> None:
        """Called before a batch is counted for the first time since the last update of the histogram."""
        if len(self._batches) >= _MAX_BATCHES:
            self._add_up()
        self._batches.append(batch)

    def _add_up(self) -> None:
        row = self._row
        for batch in self._batches:
            for size in batch.sizes:
                row[bisect_left(SIZES, size)] += batch.times
            row[-1] += batch.times * sum(batch.sizes)
            batch.times = 0
        self._batches.clear()

    @property
    def row(self) -> list[float]:
        """The numbers of events by ``SIZES``, then the sum of their bytes."""
        self._add_up()
        return self._row
