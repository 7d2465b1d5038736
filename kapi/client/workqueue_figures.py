"""Figures of all work queues of a process, by name (upstream: component-base ``metrics/prometheus/workqueue``)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kapi.machinery.meters import Counter, Histogram, exponential

_SECONDS = exponential(1e-8, 10, 10)


class QueueFigures:
    """Of one queue; ``seconds`` is its clock.  Queues that follow each other under a name add up."""

    def __init__(self, name: str, seconds: Callable[[], float]) -> None:
        self.name = name
        self._seconds = seconds
        self._since: dict[Hashable, float] = {}  # keys that wait
        self._begun: dict[Hashable, float] = {}  # keys that are handled
        FIGURES.queues[name] = self

    def added(self, key: Hashable) -> None:
        FIGURES.adds.add(self.name)
        self._since[key] = self._seconds()

    def begun(self, key: Hashable) -> None:
        now = self._begun[key] = self._seconds()
        FIGURES.waits.observe(now - self._since.pop(key, now), self.name)

    def finished(self, key: Hashable) -> None:
        now = self._seconds()
        FIGURES.works.observe(now - self._begun.pop(key, now), self.name)

    def retried(self) -> None:
        FIGURES.retries.add(self.name)

    def stopped(self) -> None:
        """What waited will not be done."""
        self._since.clear()

    @property
    def depth(self) -> int:
        return len(self._since)

    def ages(self) -> list[float]:
        """Seconds since what is handled was begun."""
        now = self._seconds()
        return [now - begun for begun in self._begun.values()]


class Figures(Collector):
    """All of them; names are those of controllers, and few."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueFigures] = {}
        labels = ("name",)
        self.adds = Counter("workqueue_adds_total", "[BETA] Total number of adds handled by workqueue", labels)
        self.retries = Counter("workqueue_retries_total", "[BETA] Total number of retries handled by workqueue", labels)
        self.waits = Histogram(
            "workqueue_queue_duration_seconds",
            "[BETA] How long in seconds an item stays in workqueue before being requested.",
            labels,
            _SECONDS,
        )
        self.works = Histogram(
            "workqueue_work_duration_seconds",
            "[BETA] How long in seconds processing an item from workqueue takes.",
            labels,
            _SECONDS,
        )

    def collect(self) -> Iterator[Metric]:
        for part in (self.adds, self.retries, self.waits, self.works):
            yield from part.collect()
        depth = GaugeMetricFamily("workqueue_depth", "[BETA] Current depth of workqueue", labels=["name"])
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "[BETA] How many seconds of work has done that is in progress and hasn't been observed by work_duration.",
            labels=["name"],
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "[BETA] How many seconds has the longest running processor for workqueue been running.",
            labels=["name"],
        )
        for name, queue in sorted(self.queues.items()):
            ages = queue.ages()
            depth.add_metric([name], queue.depth)
            unfinished.add_metric([name], sum(ages))
            longest.add_metric([name], max(ages, default=0.0))
        yield from (depth, unfinished, longest)


FIGURES = Figures()
