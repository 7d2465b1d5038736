"""The number of requests of a kind that run or wait, weighted by time (upstream: apiserver ``util/flowcontrol/metrics``).

Every request changes the number twice, so a change is cheap; ratios and buckets are computed at a scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from kapi.flowcontrol.usage import Ratios
from kapi.machinery.meters import cumulative, metric_family

BOUNDS = (0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
KINDS = ("readOnly", "mutating")


class Count:
    """``now`` is the current number; ``seconds[n]`` is how long it was n; ``since`` is its last change, in reactor seconds."""

    __slots__ = ("now", "seconds", "since")

    def __init__(self) -> None:
        self.now = 0
        self.seconds = [0.0]
        self.since = 0.0

    def advance(self, at: float) -> None:
        """Counts the time up to ``at``, in reactor seconds."""
        if at > self.since:
            if self.since:
                self.seconds[self.now] += at - self.since
            self.since = at

    def change(self, by: int, at: float) -> None:
        """Adds ``by``, 1 or -1.  Repeats the code of ``advance``, since each request calls this twice."""
        if at > self.since:
            if self.since:
                self.seconds[self.now] += at - self.since
            self.since = at
        self.now += by
        if self.now == len(self.seconds):
            self.seconds.append(0.0)


class Concurrency:
    """The current requests of one server.  ``limit`` is the most that may run at once; 0 means no limit."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.seconds: Callable[[], float] | None = None  # the reactor's clock
        self.executing = {kind: Count() for kind in KINDS}
        self.waiting = {kind: Count() for kind in KINDS}

    def wait(self, kind: str, at: float, arrived: bool = True) -> None:
        """Adds one request of ``kind`` to the waiting ones; ``arrived``: it has been counted as executing since it arrived."""
        if arrived:
            self.executing[kind].change(-1, at)
        self.waiting[kind].change(1, at)

    def resume(self, kind: str, at: float, arrived: bool = True) -> None:
        """Ends the waiting of a request."""
        self.waiting[kind].change(-1, at)
        if arrived:
            self.executing[kind].change(1, at)

    def collect(self) -> Iterator[Metric]:
        family = metric_family("apiserver_flowcontrol_read_vs_write_current_requests")
        for phase, counts in (("executing", self.executing), ("waiting", self.waiting)):
            for kind, count in counts.items():
                if self.seconds is not None:
                    count.advance(self.seconds())
                ratios = Ratios(BOUNDS)
                for number, seconds in enumerate(count.seconds):
                    if seconds:
                        ratios.add(number / max(1, self.limit), seconds)
                family.add_metric([phase, kind], cumulative(ratios.bounds, ratios.row), ratios.row[-1])
        yield family
