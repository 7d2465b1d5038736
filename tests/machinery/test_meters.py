"""Numbers as a scrape shows them."""

from __future__ import annotations

import re

import pytest

from kapi.machinery import meters
from kapi.machinery.meters import (
    DEFAULT_BOUNDS,
    Counter,
    Gauge,
    Histogram,
    coarser,
    counter,
    exponential,
    metric_family,
)
from kapi.observability.metrics import lines


def exposed(*collectors: Counter | Gauge | Histogram) -> list[str]:
    text = "".join("".join(lines(family)) for each in collectors for family in each.collect())
    return [line for line in text.splitlines() if not line.startswith("# HELP")]


def test_counters_keep_the_name_they_were_given() -> None:
    plain, total, bare = (
        Counter("attempts", "A.", ["result"]),
        Counter("uses_total", "B.", ["a"]),
        Counter("n_total", ""),
    )
    plain.add("good")
    plain.add("good", by=2)
    total.add('q"')
    assert exposed(plain, total, bare) == [
        "# TYPE attempts counter",
        'attempts{result="good"} 3',
        "# TYPE uses_total counter",
        'uses_total{a="q\\""} 1',
        "# TYPE n_total counter",
        "n_total 0",
    ]


def test_the_table_has_each_metric_once_in_order_with_its_stability() -> None:
    lines = [line for line in meters._TABLE.read_text().splitlines() if line and not line.startswith("#")]
    names = [head.split()[0] for head in lines[::2]]
    assert names == sorted(set(names))
    assert [text for text in lines[1::2] if not re.match(r"    (EXPERIMENTAL: )?\[(ALPHA|BETA|STABLE)\] .", text)] == []


def test_a_metric_of_the_table_has_its_text_and_labels() -> None:
    stages = metric_family("registered_metrics_total")
    stages.add_metric(["BETA", ""], 2)
    assert "".join(lines(stages)).splitlines()[:2] == [
        "# HELP registered_metrics_total [BETA] The count of registered metrics broken by stability level and "
        "deprecation version.",
        "# TYPE registered_metrics_total counter",
    ]
    decided = counter("authorization_attempts_total")
    decided.add("allowed")
    assert exposed(decided)[1] == 'authorization_attempts_total{result="allowed"} 1'


def test_a_histogram_adds_up() -> None:
    histogram = Histogram("took_seconds", "C.", ["verb"], exponential(0.5, 2, 2))
    for value in (0.5, 0.75, 7.0):
        histogram.observe(value, "get")
    assert exposed(histogram) == [
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{verb="get",le="0.5"} 1',
        'took_seconds_bucket{verb="get",le="1"} 2',
        'took_seconds_bucket{verb="get",le="+Inf"} 3',
        'took_seconds_sum{verb="get"} 8.25',
        'took_seconds_count{verb="get"} 3',
    ]


def test_fewer_bounds_count_the_same() -> None:
    bounds, row = (0.1, 0.5, 1.0), [1, 2, 4, 8, 30.0]
    assert coarser(bounds, row, (0.5,)) == [("0.5", 3), ("+Inf", 15)]
    assert coarser(bounds, row, bounds) == [("0.1", 1), ("0.5", 3), ("1", 7), ("+Inf", 15)]


def test_the_usual_bounds_are_those_of_prometheus() -> None:
    histogram = Histogram("took", "", ["l"], DEFAULT_BOUNDS)
    histogram.observe(1.0, "x")
    shown = [line.split('le="')[1].split('"')[0] for line in exposed(histogram) if "le=" in line]
    assert shown == ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"]


def test_a_gauge_shows_the_last_value() -> None:
    gauge = Gauge("level", "D.", ["x"])
    gauge.set(1, "a")
    gauge.set(3, "a")
    assert exposed(gauge) == ["# TYPE level gauge", 'level{x="a"} 3']


def test_many_observations_at_once_count_like_one_after_the_other() -> None:
    values = [0.05, 0.1, 0.3, 7.0]
    one, many = (Histogram("h", "text", ["l"], (0.1, 1.0)) for _ in range(2))
    for value in values:
        one.observe(value, "x")
    many.observe_all(values[:2], "x")
    many.observe_all(values[2:], "x")
    assert many.rows[("x",)] == pytest.approx(one.rows[("x",)])
    many.more(3, 0.5, "x")
    assert many.rows[("x",)] == pytest.approx([2, 4, 1, 8.95])


def test_spans_between_marks_are_observed_one_by_one() -> None:
    one, many = (Histogram("h", "text", ["l"], (0.1, 1.0)) for _ in range(2))
    for value, label in ((0.05, "a"), (0.5, "b"), (0.1, "c"), (0.02, "a"), (0.03, "b"), (0.04, "a")):
        one.observe(value, label)
    labels, known = [("a",), ("b",), ("c",), ("never",)], list[list[float]]()
    many.observe_spans([1.0, 1.04], labels, known)
    many.observe_spans([1.0, 1.05, 1.55, 1.65], labels, known)
    many.observe_spans([2.0, 2.02, 2.05], labels, known)
    assert {key: row[:-1] for key, row in many.rows.items()} == {key: row[:-1] for key, row in one.rows.items()}
    assert many.rows["a",][-1] == pytest.approx(one.rows["a",][-1])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1, "1"), (-1, "-1"), (0.5, "0.5"), (999_999, "999999"), (999_999.0, "999999"), (1_000_000, "1e+06"),
        (-999_999, "-999999"), (-1_000_000, "-1e+06"), (1_500_000, "1.5e+06"), (999_999.5, "999999.5"), (float("inf"), "+Inf"),
        (0.0001, "0.0001"), (0.00001, "1e-05"), (-1.5, "-1.5"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_by_gos_library(value: float, text: str) -> None:
    assert meters.number_text(value) == text


def test_secrets_are_hashed() -> None:
    sha = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert [meters.hashed(value) for value in ("abc", b"abc", "", b"")] == [sha, sha, "", ""]
