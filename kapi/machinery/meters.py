"""Counters, gauges and histograms as plain numbers; metric families are made only at a scrape.

A metric of prometheus-client takes a lock for every increment; a metric of this module needs only a dictionary access.  The
caller must bound the number of label values.
"""

from __future__ import annotations

import functools
import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import cast

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from kapi.machinery.golang import float_text

Labels = tuple[str, ...]
_TABLE = Path(__file__).with_name("metrics.txt")


@functools.cache
def _described() -> dict[str, tuple[str, str, Labels]]:
    """By name: the type, the text and the labels of each metric in ``metrics.txt``."""
    lines = [line for line in _TABLE.read_text().splitlines() if line and not line.startswith("#")]
    found = {}
    for head, text in zip(lines[::2], lines[1::2], strict=True):
        name, type_, *labels = head.replace(",", "").replace(" of ", " ").split()
        found[name] = type_, text.strip(), tuple(labels)
    return found


#: default upper bounds of upstream's client library, in seconds
DEFAULT_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def hashed(value: str | bytes) -> str:
    """The hash of a long or secret value, for a label; "" for an empty value."""
    data = value.encode() if isinstance(value, str) else value
    return f"sha256:{hashlib.sha256(data).hexdigest()}" if data else ""


def number_text(value: float) -> str:
    """A value of a metric in the form of Go's client library."""
    if -_LEAST_WITH_EXPONENT < value < _LEAST_WITH_EXPONENT and value == (whole := int(value)):
        return str(whole)
    return float_text(float(value))


_LEAST_WITH_EXPONENT = 1e6
#: the label value of a bucket
_bound_text = functools.cache(number_text)


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """``count`` bounds, each ``factor`` times the one before."""
    return tuple(start * factor**power for power in range(count))


class _CounterType(str):
    """Reads "counter" but is not equal to it, so that the exposition does not append ``_total`` to the family's name."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(str(self))


class Counter(Collector):
    """A counter.  ``name`` is exposed as it is; a few of upstream's do not end in ``_total``."""

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self.rows: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, by: float = 1) -> None:
        self.rows[labels] = self.rows.get(labels, 0) + by

    def collect(self) -> Iterator[Metric]:
        if self.name.endswith("_total"):
            family: Metric = CounterMetricFamily(self.name, self.text, labels=self.labels)
        else:
            family = Metric(self.name, self.text, "counter")
            family.type = _CounterType("counter")
        for key, count in sorted(self.rows.items()):
            family.add_sample(self.name, dict(zip(self.labels, key, strict=True)), count)
        yield family


class Gauge(Collector):
    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self.rows: dict[Labels, float] = {}

    def set(self, value: float, *labels: str) -> None:
        self.rows[labels] = value

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        for key, value in sorted(self.rows.items()):
            family.add_metric(list(key), value)
        yield family


def cumulative(bounds: Sequence[float], row: Sequence[float]) -> list[tuple[str, float]]:
    """Cumulative counts by bucket, as the exposition needs them; values of ``row`` after the last bucket are ignored."""
    total, buckets = 0.0, []
    for bound, count in zip((*map(_bound_text, bounds), "+Inf"), row, strict=False):
        total += count
        buckets.append((bound, total))
    return buckets


def coarser(bounds: Sequence[float], row: Sequence[float], shown: Sequence[float]) -> list[tuple[str, float]]:
    """``cumulative`` for the fewer bounds ``shown``, all of which are in ``bounds``."""
    if tuple(shown) == tuple(bounds):
        return cumulative(bounds, row)
    totals = list(accumulate(row[: len(bounds) + 1]))
    places = [bisect_left(bounds, bound) for bound in shown]
    return [*zip(map(_bound_text, shown), (totals[place] for place in places), strict=True), ("+Inf", totals[-1])]


class Histogram(Collector):
    """``bounds`` are the upper bounds of all buckets but the last (+Inf); ``shown`` those that are exposed."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        *,
        shown: Sequence[float] | None = None,
    ) -> None:
        self.name, self.text, self.labels, self.bounds = name, text, tuple(labels), tuple(bounds)
        self.shown = self.bounds if shown is None else tuple(shown)
        #: by labels: one count per bucket, then the sum
        self.rows: dict[Labels, list[float]] = {} if labels else {(): [0.0] * (len(self.bounds) + 2)}

    def observe(self, value: float, *labels: str) -> None:
        row = self.rows.get(labels) or self._new_row(labels)
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

    def observe_all(self, values: Sequence[float], *labels: str) -> None:
        """Observes each value, in half the time of single calls."""
        row, bounds = self.rows.get(labels) or self._new_row(labels), self.bounds
        for value in values:
            row[bisect_left(bounds, value)] += 1
        row[-1] += sum(values)

    def observe_spans(self, marks: Sequence[float], labels: Sequence[Labels], known: list[list[float]]) -> None:
        """Observes the difference of each two neighbouring ``marks``, with the first ``labels``, the second, and so on.

        ``known`` is an empty list at first; the caller keeps it for the next call with the same labels.
        """
        for key in islice(labels, len(known), len(marks) - 1):
            known.append(self.rows.get(key) or self._new_row(key))
        start = marks[0]
        if marks[-1] - start <= self.bounds[0]:
            for row, end in zip(known, islice(marks, 1, None), strict=False):
                row[0] += 1
                row[-1] += end - start
                start = end
            return
        for row, end in zip(known, islice(marks, 1, None), strict=False):
            row[bisect_left(self.bounds, end - start)] += 1
            row[-1] += end - start
            start = end

    def _new_row(self, labels: Labels) -> list[float]:
        row = self.rows[labels] = [0.0] * (len(self.bounds) + 2)
        return row

    def more(self, count: int, value: float, *labels: str) -> None:
        """Observes the same value ``count`` times."""
        row = self.rows.get(labels) or self._new_row(labels)
        row[bisect_left(self.bounds, value)] += count
        row[-1] += value * count

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        for key, row in sorted(self.rows.items()):
            family.add_metric(list(key), coarser(self.bounds, row, self.shown), row[-1])
        yield family


def counter(name: str) -> Counter:
    """The counter that ``metrics.txt`` describes."""
    return Counter(name, *_described()[name][1:])


def gauge(name: str) -> Gauge:
    """The gauge that ``metrics.txt`` describes."""
    return Gauge(name, *_described()[name][1:])


def histogram(name: str, bounds: Sequence[float], *, shown: Sequence[float] | None = None) -> Histogram:
    """The histogram that ``metrics.txt`` describes."""
    return Histogram(name, *_described()[name][1:], bounds, shown=shown)


class MetricFamily(Metric):
    """The common methods of the families of prometheus_client, which has no class for them; only for type checkers."""

    def add_metric(self, labels: Sequence[str], *values: object) -> None: ...


_FAMILIES: dict[str, Callable[..., Metric]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
    "summary": SummaryMetricFamily,
}


def metric_family(name: str, value: float | None = None) -> MetricFamily:
    """The metric family that ``metrics.txt`` describes, with this value if it has no labels."""
    type_, text, labels = _described()[name]
    made = _FAMILIES[type_]
    family = made(name, text, labels=labels) if value is None else made(name, text, value=value)
    return cast(MetricFamily, family)
