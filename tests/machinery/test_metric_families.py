"""Families say the same as those of the client library, which writes them."""

from __future__ import annotations

import pytest
from prometheus_client import core
from prometheus_client.exposition import generate_latest
from prometheus_client.utils import floatToGoString

from kapi.machinery import metric_families
from kapi.machinery.metric_families import CollectorRegistry, Metric, bound_text

_BUCKETS = [("0.5", 1.0), ("+Inf", 3.0)]


class One:
    def __init__(self, family: Metric) -> None:
        self.family = family

    def collect(self) -> list[Metric]:
        return [self.family]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("CounterMetricFamily", ["3"]),
        ("GaugeMetricFamily", [0.25]),
        ("HistogramMetricFamily", [_BUCKETS, 7.5]),
        ("SummaryMetricFamily", [4, 2.5]),
    ],
)
def test_the_text_is_that_of_the_librarys_own_families(name: str, arguments: list[object]) -> None:
    texts = []
    for module in (metric_families, core):
        family = getattr(module, name)("x_total", 'A "text"\nof two lines.', labels=["b", "a"])
        family.add_metric(['v"1', "w"], *arguments)
        family.add_metric(["v2", ""], *arguments)
        texts.append(generate_latest(One(family)))  # type: ignore[arg-type]
    assert texts[0] == texts[1]
    assert b"w" in texts[0]


@pytest.mark.parametrize("name", ["CounterMetricFamily", "GaugeMetricFamily"])
def test_a_family_of_one_value(name: str) -> None:
    own, other = (getattr(module, name)("x", "Text.", value=5) for module in (metric_families, core))
    assert generate_latest(One(own)) == generate_latest(One(other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bound", [0, 0.005, 1, 2.5, 10, 123456, 999999.5, 1e6, 1234567, 2.5e7, 1e15, 1e16, 1e22, 1e-7, float("inf")]
)
def test_bounds_are_written_as_the_library_writes_them(bound: float) -> None:
    assert bound_text(bound) == floatToGoString(bound)


def test_a_value_for_each_label() -> None:
    with pytest.raises(ValueError, match="zip"):
        metric_families.GaugeMetricFamily("x", "", labels=["a", "b"]).add_metric(["1"], 1)


def test_collectors_answer_in_order_until_they_are_taken_away() -> None:
    registry = CollectorRegistry()
    first, second = (One(Metric(name, "", "gauge")) for name in "ba")
    registry.register(first)
    registry.register(second)
    assert [family.name for family in registry.collect()] == ["b", "a"]
    registry.unregister(first)
    assert [family.name for family in registry.collect()] == ["a"]
