"""The text of metrics, as Go writes it."""

from __future__ import annotations

import math
import re

import pytest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.defer import Deferred

from kapi.machinery.meters import Counter, Histogram, number_text
from kapi.observability.metrics import Exposition, Metrics, lines
from kapi.request.response import Response
from tests.filters.requests import request


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (6.0, "6"), (-3.0, "-3"), (True, "1"), (0.25, "0.25"), (999999.0, "999999"), (1e6, "1e+06"),
        (1234567.0, "1.234567e+06"), (-1e6, "-1e+06"), (1e9, "1e+09"), (1764332109.25, "1.76433210925e+09"),
        (0.0001, "0.0001"), (0.00001, "1e-05"), (2**60, "1.152921504606847e+18"), (1e100, "1e+100"),
        (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_values_are_the_shortest_that_go_reads_again(value: float, text: str) -> None:
    assert number_text(value) == text


def text_of(family: Metric) -> str:
    return "".join(lines(family))


def test_labels_are_in_order_with_the_bound_of_a_bucket_last() -> None:
    histogram = Histogram("a_seconds", "Of a.", ("verb", "code"), (0.5, 1.0, 60.0))
    histogram.observe(0.75, "GET", "200")
    (family,) = histogram.collect()
    assert text_of(family).splitlines() == [
        "# HELP a_seconds Of a.",
        "# TYPE a_seconds histogram",
        'a_seconds_bucket{code="200",verb="GET",le="0.5"} 0',
        'a_seconds_bucket{code="200",verb="GET",le="1"} 1',
        'a_seconds_bucket{code="200",verb="GET",le="60"} 1',
        'a_seconds_bucket{code="200",verb="GET",le="+Inf"} 1',
        'a_seconds_sum{code="200",verb="GET"} 0.75',
        'a_seconds_count{code="200",verb="GET"} 1',
    ]


def test_what_would_end_a_text_or_a_line_is_escaped() -> None:
    family = GaugeMetricFamily("g", 'one "two"\nthree\\', labels=["l"])
    family.add_metric(['a"b\\c\nd'], 1)
    text = text_of(family)
    assert text == '# HELP g one "two"\\nthree\\\\\n# TYPE g gauge\ng{l="a\\"b\\\\c\\nd"} 1\n'
    (read,) = text_string_to_metric_families(text)
    assert (read.documentation, read.samples[0].labels) == ('one "two"\nthree\\', {"l": 'a"b\\c\nd'})


def test_types_that_the_format_has_not_are_shown_as_others() -> None:
    info = InfoMetricFamily("build", "B.", value={"version": "1"})
    assert text_of(info) == '# HELP build_info B.\n# TYPE build_info gauge\nbuild_info{version="1"} 1\n'
    state = StateSetMetricFamily("s", "S.", value={"on": True})
    assert text_of(state) == '# HELP s S.\n# TYPE s gauge\ns{s="on"} 1\n'
    unknown = Metric("u", "U.", "unknown")
    unknown.add_sample("u", {}, 2)
    assert text_of(unknown) == "# HELP u U.\n# TYPE u untyped\nu 2\n"
    plain = Counter("attempts", "A.", ())
    plain.add()
    (family,) = plain.collect()
    assert text_of(family) == "# HELP attempts A.\n# TYPE attempts counter\nattempts 1\n"


def test_families_are_by_name_without_those_that_have_no_samples() -> None:
    metrics = Metrics()
    for name in ("zz_total", "none_total", "aa", "a_total"):
        counter = Counter(name, "Of it.", ("l",))
        if name != "none_total":
            counter.add("x")
        metrics.registry.register(counter)
    names = re.findall(r"^# TYPE (\S+) ", b"".join(metrics.exposition()).decode(), re.M)
    assert names == sorted(names) and {"zz_total", "aa", "a_total", "process_start_time_seconds"} <= set(names)
    assert "none_total" not in names


def test_metrics_are_by_the_values_of_their_labels_in_the_order_of_their_names() -> None:
    family = GaugeMetricFamily("g", "G.", labels=["verb", "code"])
    for verb, code in (("a", "500"), ("b", "200"), ("a", "200!"), ("a", "200")):
        family.add_metric([verb, code], 1)
    family.add_sample("g", {"z": "z"}, 1)
    assert text_of(family).splitlines()[2:] == [
        'g{z="z"} 1',
        'g{code="200",verb="a"} 1',
        'g{code="200",verb="b"} 1',
        'g{code="200!",verb="a"} 1',
        'g{code="500",verb="a"} 1',
    ]


def test_the_lines_of_a_histogram_stay_together() -> None:
    histogram = Histogram("h", "H.", ("b", "a"), (2.0, 10.0))
    for labels in (("1", "2"), ("2", "1")):
        histogram.observe(5.0, *labels)
    (family,) = histogram.collect()
    assert [line.rpartition(" ")[0] for line in text_of(family).splitlines()[2:]] == [
        f"h_{part}"
        for labels in ('a="1",b="2"', 'a="2",b="1"')
        for part in (
            *(f'bucket{{{labels},le="{bound}"}}' for bound in ("2", "10", "+Inf")), f"sum{{{labels}}}", f"count{{{labels}}}"
        )
    ]  # fmt: skip


def test_the_answer_names_its_format() -> None:
    answers: list[Response] = []
    Deferred.fromCoroutine(Exposition(Metrics()).metrics(request("/metrics"))).addCallback(answers.append)
    (answer,) = answers
    assert answer.content_type == b"text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    assert b"process_start_time_seconds" in answer.body
