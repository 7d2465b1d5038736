"""Metric families as a scrape finds them, and the registry of who makes them.

They have the shape that prometheus-client writes as text (``kapi/server/metrics.py``).  Its own classes are not used: with all
that it imports it takes 1 MB and part of each start, and a server that nobody scrapes needs none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

_TOTAL = "_total"
_PLAIN = 6  # digits before the point


def bound_text(bound: float) -> str:
    """The upper end of a bucket as clients of other languages write it too: from a million on with an exponent."""
    text = repr(float(bound))
    whole, _, fraction = text.partition(".")
    if len(whole) <= _PLAIN or not whole.isdigit():
        return "+Inf" if text == "inf" else text
    digits = (whole + fraction).rstrip("0")
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{mantissa}e+{len(whole) - 1:02d}"


class Sample(NamedTuple):
    """One line of the text."""

    name: str
    labels: Mapping[str, str]
    value: float
    timestamp: None = None


class Metric:
    """A family: ``name`` without what its samples have behind it, ``type`` in the words of the exposition format."""

    def __init__(self, name: str, documentation: str, type: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.documentation = documentation
        self.type = type
        self.samples: list[Sample] = []
        self._labels = tuple(labels)

    def add_sample(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self.samples.append(Sample(name, labels, value))

    def _add(self, suffix: str, values: Sequence[str], value: float) -> None:
        self.samples.append(Sample(self.name + suffix, dict(zip(self._labels, values, strict=True)), value))


class CounterMetricFamily(Metric):
    """``name`` may end in ``_total``, which its samples do in any case."""

    def __init__(self, name: str, documentation: str, value: float | None = None, labels: Sequence[str] = ()) -> None:
        super().__init__(name.removesuffix(_TOTAL), documentation, "counter", labels)
        if value is not None:
            self.add_metric((), value)

    def add_metric(self, labels: Sequence[str], value: float) -> None:
        self._add(_TOTAL, labels, value)


class GaugeMetricFamily(Metric):
    def __init__(self, name: str, documentation: str, value: float | None = None, labels: Sequence[str] = ()) -> None:
        super().__init__(name, documentation, "gauge", labels)
        if value is not None:
            self.add_metric((), value)

    def add_metric(self, labels: Sequence[str], value: float) -> None:
        self._add("", labels, value)


class SummaryMetricFamily(Metric):
    """Without quantiles."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, documentation, "summary", labels)

    def add_metric(self, labels: Sequence[str], count_value: int, sum_value: float) -> None:
        self._add("_count", labels, count_value)
        self._add("_sum", labels, sum_value)


class HistogramMetricFamily(Metric):
    def __init__(self, name: str, documentation: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, documentation, "histogram", labels)

    def add_metric(self, labels: Sequence[str], buckets: Sequence[tuple[str, float]], sum_value: float) -> None:
        """``buckets`` are upper ends as text with how many observations were not above, "+Inf" last."""
        common = dict(zip(self._labels, labels, strict=True))
        name = f"{self.name}_bucket"
        self.samples += [Sample(name, {**common, "le": bound}, count) for bound, count in buckets]
        self._add("_count", labels, buckets[-1][1])
        self._add("_sum", labels, sum_value)


class Collector(Protocol):
    """Who makes families at a scrape."""

    def collect(self) -> Iterable[Metric]: ...


class CollectorRegistry:
    """All collectors of a process, in the order in which they came."""

    def __init__(self) -> None:
        self._collectors: dict[Collector, None] = {}

    def register(self, collector: Collector) -> None:
        self._collectors[collector] = None

    def unregister(self, collector: Collector) -> None:
        """Raises KeyError for one that is not registered."""
        del self._collectors[collector]

    def collect(self) -> Iterator[Metric]:
        for collector in list(self._collectors):
            yield from collector.collect()
