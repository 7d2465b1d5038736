"""Metrics of all work queues of a process, by name (upstream: component-base ``metrics/prometheus/workqueue``)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from weakref import WeakSet

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kapi.machinery.meters import Counter, Histogram, exponential

_SECONDS = exponential(1e-8, 10, 10)


class QueueMetrics:
    """The metrics of one queue; ``seconds`` is its clock.  Those of other queues of the same name are added to them."""

    def __init__(self, name: str, seconds: Callable[[], float]) -> None:
        self.name = name
        self._seconds = seconds
        self._added_at: dict[Hashable, float] = {}  # keys that wait
        self._begun_at: dict[Hashable, float] = {}  # keys that are handled
        METRICS.queues.setdefault(name, WeakSet()).add(self)

    def added(self, key: Hashable) -> None:
        METRICS.adds.add(self.name)
        self._added_at[key] = self._seconds()

    def begun(self, key: Hashable) -> None:
        now = self._begun_at[key] = self._seconds()
        METRICS.queue_duration.observe(now - self._added_at.pop(key, now), self.name)

    def finished(self, key: Hashable) -> None:
        now = self._seconds()
        METRICS.work_duration.observe(now - self._begun_at.pop(key, now), self.name)

    def retried(self) -> None:
        METRICS.retries.add(self.name)

    def stopped(self) -> None:
        """Forgets the keys that wait: they will not be handled."""
        self._added_at.clear()

    @property
    def depth(self) -> int:
        return len(self._added_at)

    def ages(self) -> list[float]:
        """How many seconds each of the keys that are handled now has taken so far."""
        now = self._seconds()
        return [now - begun for begun in self._begun_at.values()]


class WorkQueueMetrics(Collector):
    """The metrics of all queues.  Their names are few: a queue has the name of its controller, in each logical cluster."""

    def __init__(self) -> None:
        self.queues: dict[str, WeakSet[QueueMetrics]] = {}
        labels = ("name",)
        self.adds = Counter("workqueue_adds_total", "[BETA] Total number of adds handled by workqueue", labels)
        self.retries = Counter("workqueue_retries_total", "[BETA] Total number of retries handled by workqueue", labels)
        self.queue_duration = Histogram(
            "workqueue_queue_duration_seconds",
            "[BETA] How long in seconds an item stays in workqueue before being requested.",
            labels,
            _SECONDS,
        )
        self.work_duration = Histogram(
            "workqueue_work_duration_seconds",
            "[BETA] How long in seconds processing an item from workqueue takes.",
            labels,
            _SECONDS,
        )

    def collect(self) -> Iterator[Metric]:
        for part in (self.adds, self.retries, self.queue_duration, self.work_duration):
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
        for name, queues in sorted(self.queues.items()):
            ages = [age for queue in queues for age in queue.ages()]
            depth.add_metric([name], sum(queue.depth for queue in queues))
            unfinished.add_metric([name], sum(ages))
            longest.add_metric([name], max(ages, default=0.0))
        yield from (depth, unfinished, longest)


METRICS = WorkQueueMetrics()
