"""Metrics of priority and fairness under upstream's names (apiserver ``util/flowcontrol/metrics``)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from kapi.flowcontrol.controller import FlowController
    from kapi.flowcontrol.fair_queues import Request

_PREFIX = "apiserver_flowcontrol_"
_SECONDS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_SEATS = (1.0, 2.0, 4.0, 10.0)
_LEVEL, _SCHEMA = "priority_level", "flow_schema"
_Key = tuple[str, ...]


class _Histogram:
    def __init__(self, name: str, text: str, labels: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        self.name, self.text, self.labels, self.bounds = name, text, labels, bounds
        self.rows: dict[_Key, list[float]] = {}

    def observe(self, key: _Key, value: float) -> None:
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = [0.0] * (len(self.bounds) + 2)
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

    def family(self) -> Metric:
        family = HistogramMetricFamily(_PREFIX + self.name, self.text, labels=self.labels)
        for key, row in sorted(self.rows.items()):
            total, buckets = 0.0, []
            for bound, count in zip((*map(floatToGoString, self.bounds), "+Inf"), row, strict=False):
                total += count
                buckets.append((bound, total))
            family.add_metric(list(key), buckets, row[-1])
        return family


class Meter(Collector):
    """Plain numbers, made into metrics when somebody scrapes.  Registers itself with ``registry``."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.controller: FlowController | None = None
        self.rejections: dict[_Key, int] = {}
        self.dispatches: dict[_Key, int] = {}
        self._waits = _Histogram(
            "request_wait_duration_seconds",
            "[BETA] Length of time a request spent waiting in its queue",
            (_LEVEL, _SCHEMA, "execute"),
            _SECONDS,
        )
        self._runs = _Histogram(
            "request_execution_seconds",
            "[ALPHA] Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution "
            "in the API Priority and Fairness subsystem",
            (_LEVEL, _SCHEMA),
            _SECONDS,
        )
        self._seats = _Histogram(
            "work_estimated_seats",
            "[ALPHA] Number of estimated seats (maximum of initial and final seats) associated with requests in API "
            "Priority and Fairness",
            (_LEVEL, _SCHEMA),
            _SEATS,
        )
        if registry is not None:
            registry.register(self)

    def estimated(self, level: str, schema: str, seats: int) -> None:
        self._seats.observe((level, schema), seats)

    def rejected(self, level: str, schema: str, reason: str) -> None:
        key = (level, schema, reason)
        self.rejections[key] = self.rejections.get(key, 0) + 1

    def waited(self, level: str, schema: str, seconds: float, executed: bool) -> None:
        self._waits.observe((level, schema, "true" if executed else "false"), seconds)
        if executed:
            key = (level, schema)
            self.dispatches[key] = self.dispatches.get(key, 0) + 1

    def executed(self, level: str, request: Request, seconds: float) -> None:
        self._runs.observe((level, request.schema), seconds)

    def collect(self) -> Iterator[Metric]:
        for name, text, rows, labels in (
            (
                "rejected_requests_total",
                "[BETA] Number of requests rejected by API Priority and Fairness subsystem",
                self.rejections,
                (_LEVEL, _SCHEMA, "reason"),
            ),
            (
                "dispatched_requests_total",
                "[BETA] Number of requests executed by API Priority and Fairness subsystem",
                self.dispatches,
                (_LEVEL, _SCHEMA),
            ),
        ):
            counter = CounterMetricFamily(_PREFIX + name, text, labels=labels)
            for key, count in sorted(rows.items()):
                counter.add_metric(list(key), count)
            yield counter
        for histogram in (self._waits, self._runs, self._seats):
            yield histogram.family()
        yield from self._levels()

    def _levels(self) -> Iterator[Metric]:
        controller = self.controller
        if controller is None:
            return
        levels = sorted(controller.levels.values(), key=lambda level: level.name)
        for name, text, read in (
            ("nominal_limit_seats", "[BETA] Nominal number of execution seats", lambda level: level.nominal),
            ("lower_limit_seats", "[ALPHA] Lower bound on number of execution seats", lambda level: level.lower),
            ("upper_limit_seats", "[ALPHA] Upper bound on number of execution seats", lambda level: level.upper),
            ("current_limit_seats", "[ALPHA] Current derived number of execution seats", lambda level: level.current),
            (
                "current_executing_seats",
                "[BETA] Seats in use by executing requests",
                lambda level: level.queues.seats_in_use,
            ),
            ("current_executing_requests", "[BETA] Requests executing now", lambda level: level.queues.executing),
            ("current_inqueue_requests", "[BETA] Requests in queues now", lambda level: level.queues.waiting),
            (
                "current_inqueue_seats",
                "[ALPHA] Seats of requests in queues now",
                lambda level: level.queues.seats_waiting,
            ),
            (
                "demand_seats_average",
                "[ALPHA] Time-weighted average of seat demand",
                lambda level: level.queues.demand.average,
            ),
            (
                "demand_seats_high_watermark",
                "[ALPHA] Largest seat demand of the last adjustment period",
                lambda level: level.queues.demand.high,
            ),
            ("demand_seats_smoothed", "[ALPHA] Smoothed seat demands", lambda level: level.queues.demand.smoothed),
        ):
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=(_LEVEL,))
            value: Any = read
            for level in levels:
                gauge.add_metric([level.name], float(value(level)))
            yield gauge
        text = "[ALPHA] Fair fraction of server's concurrency to allocate to each priority level that can use it"
        yield GaugeMetricFamily(_PREFIX + "seat_fair_frac", text, value=controller.fair_fraction)
