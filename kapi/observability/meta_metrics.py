"""Metrics about the metrics (upstream: component-base ``metrics/prometheus/meta``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from kapi.observability.metrics_shape import Shape

_STAGE = re.compile(r"^\[(ALPHA|BETA|STABLE|INTERNAL)\] ")


def with_meta(families: Iterable[Metric], shape: Shape | None) -> Iterator[Metric]:
    """The same families, then what there is to say of them.  Those without a stage, of the client library, are alpha."""
    stages: dict[str, int] = {}
    for family in families:
        found = _STAGE.match(family.documentation)
        stage = found[1] if found else "ALPHA"
        stages[stage] = stages.get(stage, 0) + 1
        yield family
    registered = CounterMetricFamily(
        "registered_metrics_total",
        "[BETA] The count of registered metrics broken by stability level and deprecation version.",
        labels=("stability_level", "deprecated_version"),
    )
    for stage, count in sorted(stages.items()):
        registered.add_metric([stage, ""], count)
    yield registered
    for name, text, value in (
        ("disabled_metrics_total", "[BETA] The count of disabled metrics.", shape.hidden if shape else 0),
        ("hidden_metrics_total", "[BETA] The count of hidden metrics.", 0),
        (
            "cardinality_enforcement_unexpected_categorizations_total",
            "[ALPHA] The count of unexpected categorizations during cardinality enforcement.",
            shape.unexpected if shape else 0,
        ),
    ):
        yield CounterMetricFamily(name, text, value=value)
