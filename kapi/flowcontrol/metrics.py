"""Metrics of priority and fairness under upstream's names (apiserver ``util/flowcontrol/metrics``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kapi.flowcontrol.queue import Tally
from kapi.flowcontrol.usage import Ratios, Usage
from kapi.machinery.meters import Counter, Histogram, cumulative

if TYPE_CHECKING:
    from kapi.flowcontrol.level import PriorityLevel
    from kapi.flowcontrol.queue import Request

_PREFIX = "apiserver_flowcontrol_"
_SECONDS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_SEATS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0)
_WATCHES = (0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0)
_LENGTHS = (0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
_LEVEL, _SCHEMA = "priority_level", "flow_schema"
_FLOW = (_LEVEL, _SCHEMA)
_USAGE: tuple[tuple[str, str, tuple[tuple[str, Callable[[Usage], Ratios]], ...]], ...] = (
    (
        "priority_level_seat_utilization",
        "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of utilization of seats for any stage of "
        "execution (but only initial stage for WATCHes)",
        (("executing", lambda usage: usage.seats),),
    ),
    (
        "priority_level_request_utilization",
        "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of number of requests (as a fraction of the "
        "relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)",
        (("executing", lambda usage: usage.executing), ("waiting", lambda usage: usage.waiting)),
    ),
    (
        "demand_seats",
        "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of (the number of seats each priority level could "
        "use) / (nominal number of seats for that level)",
        (("", lambda usage: usage.demand),),
    ),
)


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
        self._rejected = Counter(
            _PREFIX + "rejected_requests_total",
            "[BETA] Number of requests rejected by API Priority and Fairness subsystem",
            (*_FLOW, "reason"),
        )
        self._dispatched = Counter(
            _PREFIX + "dispatched_requests_total",
            "[BETA] Number of requests executed by API Priority and Fairness subsystem",
            _FLOW,
        )
        self._waits = Histogram(
            _PREFIX + "request_wait_duration_seconds",
            "[BETA] Length of time a request spent waiting in its queue",
            (*_FLOW, "execute"),
            _SECONDS,
        )
        self._runs = Histogram(
            _PREFIX + "request_execution_seconds",
            "[ALPHA] Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution "
            "in the API Priority and Fairness subsystem",
            (*_FLOW, "type"),
            _SECONDS,
        )
        self._seats = Histogram(
            _PREFIX + "work_estimated_seats",
            "[ALPHA] Number of estimated seats (maximum of initial and final seats) associated with requests in API "
            "Priority and Fairness",
            _FLOW,
            _SEATS,
        )
        self._lengths = Histogram(
            _PREFIX + "request_queue_length_after_enqueue",
            "[ALPHA] Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is "
            "enqueued",
            _FLOW,
            _LENGTHS,
        )
        self._watches = Histogram(
            _PREFIX + "watch_count_samples",
            "[ALPHA] count of watchers for mutating requests in API Priority and Fairness",
            _FLOW,
            _WATCHES,
        )
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
            text = "[ALPHA] Fair fraction of server's concurrency to allocate to each priority level that can use it"
            yield GaugeMetricFamily(_PREFIX + "seat_fair_frac", text, value=self.controller.fair_fraction)

    @staticmethod
    def _usage(levels: list[PriorityLevel], now: float) -> Iterator[Metric]:
        """The levels' utilization, weighted by time."""
        for level in levels:
            level.queues.usage.advance(now)
        for name, text, phases in _USAGE:
            phased = phases[0][0] != ""
            family = HistogramMetricFamily(_PREFIX + name, text, labels=("phase", _LEVEL) if phased else (_LEVEL,))
            for phase, read in phases:
                for level in levels:
                    ratios = read(level.queues.usage)
                    labels = [phase, level.name] if phased else [level.name]
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
        for name, text, rows, column in (
            (
                "current_inqueue_requests",
                "[BETA] Number of requests currently pending in queues of the API Priority and Fairness subsystem",
                waiting,
                0,
            ),
            (
                "current_inqueue_seats",
                "[ALPHA] Number of seats currently pending in queues of the API Priority and Fairness subsystem",
                waiting,
                1,
            ),
            (
                "current_executing_requests",
                "[BETA] Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API "
                "Priority and Fairness subsystem",
                running,
                0,
            ),
            (
                "current_executing_seats",
                "[BETA] Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, "
                "any stage otherwise) requests in the API Priority and Fairness subsystem",
                running,
                1,
            ),
        ):
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=_FLOW)
            for key, row in sorted(rows.items()):
                gauge.add_metric(list(key), row[column])
            yield gauge

    @staticmethod
    def _levels(levels: list[PriorityLevel]) -> Iterator[Metric]:
        for name, text, read in (
            (
                "nominal_limit_seats",
                "[BETA] Nominal number of execution seats configured for each priority level",
                lambda level: level.nominal,
            ),
            (
                "lower_limit_seats",
                "[ALPHA] Configured lower bound on number of execution seats available to each priority level",
                lambda level: level.lower,
            ),
            (
                "upper_limit_seats",
                "[ALPHA] Configured upper bound on number of execution seats available to each priority level",
                lambda level: level.upper,
            ),
            (
                "current_limit_seats",
                "[ALPHA] current derived number of execution seats available to each priority level",
                lambda level: level.current,
            ),
            (
                "demand_seats_average",
                "[ALPHA] Time-weighted average, over last adjustment period, of demand_seats",
                lambda level: level.queues.usage.wanted.average,
            ),
            (
                "demand_seats_high_watermark",
                "[ALPHA] High watermark, over last adjustment period, of demand_seats",
                lambda level: level.queues.usage.wanted.high,
            ),
            (
                "demand_seats_stdev",
                "[ALPHA] Time-weighted standard deviation, over last adjustment period, of demand_seats",
                lambda level: level.queues.usage.wanted.deviation,
            ),
            (
                "demand_seats_smoothed",
                "[ALPHA] Smoothed seat demands",
                lambda level: level.queues.usage.wanted.smoothed,
            ),
            ("target_seats", "[ALPHA] Seat allocation targets", lambda level: level.target),
            ("current_r", "[ALPHA] R(time of last change)", lambda level: level.queues.current_r),
        ):
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=(_LEVEL,))
            value: Callable[[PriorityLevel], float] = read
            for level in levels:
                gauge.add_metric([level.name], float(value(level)))
            yield gauge
