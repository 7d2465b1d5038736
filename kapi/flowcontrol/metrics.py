"""Metrics of priority and fairness under upstream's names (apiserver ``util/flowcontrol/metrics``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kapi.flowcontrol.queue import Tally
from kapi.flowcontrol.usage import Ratios, Usage
from kapi.machinery.meters import counter, cumulative, histogram, metric_family

if TYPE_CHECKING:
    from kapi.flowcontrol.level import PriorityLevel
    from kapi.flowcontrol.queue import Request

_PREFIX = "apiserver_flowcontrol_"
_SECONDS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_SEATS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0)
_WATCHES = (0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0)
_LENGTHS = (0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
#: by metric: what it shows of a level's use, by phase ("" for a metric without phases)
_USAGE: dict[str, dict[str, Callable[[Usage], Ratios]]] = {
    "priority_level_seat_utilization": {"executing": lambda usage: usage.seats},
    "priority_level_request_utilization": {
        "executing": lambda usage: usage.executing,
        "waiting": lambda usage: usage.waiting,
    },
    "demand_seats": {"": lambda usage: usage.demand},
}
_LEVELS: dict[str, Callable[[PriorityLevel], float]] = {
    "nominal_limit_seats": lambda level: level.nominal,
    "lower_limit_seats": lambda level: level.lower,
    "upper_limit_seats": lambda level: level.upper,
    "current_limit_seats": lambda level: level.current,
    "demand_seats_average": lambda level: level.queues.usage.wanted.average,
    "demand_seats_high_watermark": lambda level: level.queues.usage.wanted.high,
    "demand_seats_stdev": lambda level: level.queues.usage.wanted.deviation,
    "demand_seats_smoothed": lambda level: level.queues.usage.wanted.smoothed,
    "target_seats": lambda level: level.target,
    "current_r": lambda level: level.queues.current_r,
}


class Levels(Protocol):
    """The part of the controller that a scrape reads."""

    levels: dict[str, PriorityLevel]
    fair_fraction: float

    def seconds(self) -> float: ...


class Meter(Collector):
    """Plain numbers, which become metrics at a scrape.  Registers itself with ``registry``."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.controller: Levels | None = None
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._rejected = counter("apiserver_flowcontrol_rejected_requests_total")
        self._dispatched = counter("apiserver_flowcontrol_dispatched_requests_total")
        self._waits = histogram("apiserver_flowcontrol_request_wait_duration_seconds", _SECONDS)
        self._runs = histogram("apiserver_flowcontrol_request_execution_seconds", _SECONDS)
        self._seats = histogram("apiserver_flowcontrol_work_estimated_seats", _SEATS)
        self._lengths = histogram("apiserver_flowcontrol_request_queue_length_after_enqueue", _LENGTHS)
        self._watches = histogram("apiserver_flowcontrol_watch_count_samples", _WATCHES)
        if registry is not None:
            registry.register(self)

    @property
    def rejections(self) -> dict[tuple[str, ...], float]:
        """Rejected requests by level, schema and reason."""
        return self._rejected.rows

    @property
    def dispatches(self) -> dict[tuple[str, ...], float]:
        """Dispatched requests by level and schema."""
        self._flush_tallies()
        return self._dispatched.rows

    def tally(self, level: str, schema: str) -> Tally:
        """The tally of ordinary requests, which is cheaper than an observation of each in a histogram."""
        known = self._tallies.get((level, schema))
        if known is None:
            known = self._tallies[level, schema] = Tally(level, schema, self._runs)
        return known

    def _flush_tallies(self) -> None:
        """Moves the tallies into the metrics."""
        for (level, schema), tally in self._tallies.items():
            tally.flush()
            if tally.estimated:
                self._seats.more(tally.estimated, 1, level, schema)
            if tally.dispatched:
                self._waits.more(tally.dispatched, 0.0, level, schema, "true")
                self._dispatched.add(level, schema, by=tally.dispatched)
            tally.estimated = tally.dispatched = 0

    def estimated(self, level: str, schema: str, seats: int) -> None:
        self._seats.observe(seats, level, schema)

    def rejected(self, level: str, schema: str, reason: str) -> None:
        self._rejected.add(level, schema, reason)

    def watched(self, level: str, schema: str, watches: int) -> None:
        """Records how many watches get the event of a write."""
        self._watches.observe(watches, level, schema)

    def queued(self, level: str, schema: str, length: int) -> None:
        self._lengths.observe(length, level, schema)

    def waited(self, level: str, schema: str, seconds: float, executed: bool) -> None:
        self._waits.observe(seconds, level, schema, "true" if executed else "false")
        if executed:
            self._dispatched.add(level, schema)

    def executed(self, level: str, request: Request, seconds: float) -> None:
        self._runs.observe(seconds, level, request.schema, request.kind)

    def collect(self) -> Iterator[Metric]:
        self._flush_tallies()
        for each in (
            self._rejected,
            self._dispatched,
            self._waits,
            self._runs,
            self._seats,
            self._lengths,
            self._watches,
        ):
            yield from each.collect()
        if self.controller is not None:
            levels = sorted(self.controller.levels.values(), key=lambda level: level.name)
            yield from self._levels(levels)
            yield from self._flows(levels)
            yield from self._usage(levels, self.controller.seconds())
            yield metric_family("apiserver_flowcontrol_seat_fair_frac", value=self.controller.fair_fraction)

    @staticmethod
    def _usage(levels: list[PriorityLevel], now: float) -> Iterator[Metric]:
        """The levels' utilization, weighted by time."""
        for level in levels:
            level.queues.usage.advance(now)
        for name, phases in _USAGE.items():
            family = metric_family(_PREFIX + name)
            for phase, read in phases.items():
                for level in levels:
                    ratios = read(level.queues.usage)
                    labels = [phase, level.name] if phase else [level.name]
                    family.add_metric(labels, cumulative(ratios.bounds, ratios.row), ratios.row[-1])
            yield family

    @staticmethod
    def _flows(levels: list[PriorityLevel]) -> Iterator[Metric]:
        """Waiting and running requests, counted at the scrape."""
        waiting: dict[tuple[str, ...], list[int]] = {}
        running: dict[tuple[str, ...], list[int]] = {}
        for level in levels:
            queued = (request for queue in level.queues.queues.values() for request in queue.requests)
            for into, requests in ((waiting, queued), (running, iter(level.queues.running))):
                for request in requests:
                    row = into.setdefault((level.name, request.schema), [0, 0])
                    row[0] += 1
                    row[1] += request.max_seats
        for name, rows, column in (
            ("current_inqueue_requests", waiting, 0),
            ("current_inqueue_seats", waiting, 1),
            ("current_executing_requests", running, 0),
            ("current_executing_seats", running, 1),
        ):
            gauge = metric_family(_PREFIX + name)
            for key, row in sorted(rows.items()):
                gauge.add_metric(list(key), row[column])
            yield gauge

    @staticmethod
    def _levels(levels: list[PriorityLevel]) -> Iterator[Metric]:
        for name, read in _LEVELS.items():
            gauge = metric_family(_PREFIX + name)
            for level in levels:
                gauge.add_metric([level.name], float(read(level)))
            yield gauge
