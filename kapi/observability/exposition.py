"""The text of metrics, byte for byte as Go's client library writes it.

Upstream: ``github.com/prometheus/common/expfmt``, ``text_create.go``.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from kapi.machinery.meters import number_text

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
#: types of the client library that Prometheus' text format has not
_TYPES = {"info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram", "unknown": "untyped"}
#: to the name of a family, which the client library has without it
_SUFFIXES = {"counter": "_total", "info": "_info"}
_VALUE = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def header(family: Metric) -> str:
    """The lines before the samples of a family."""
    name = family.name + _SUFFIXES.get(family.type, "")
    return (
        f"# HELP {name} {family.documentation.translate(_HELP)}\n# TYPE {name} {_TYPES.get(family.type, family.type)}\n"
    )


def lines(samples: Iterable[Sample]) -> str:
    """A line for each sample: labels by name, the bound of a bucket last."""
    return "".join(map(_line, samples))


def _line(sample: Sample) -> str:
    name, labels = sample.name, sample.labels
    if labels:
        pairs = [f'{label}="{labels[label].translate(_VALUE)}"' for label in sorted(labels) if label != "le"]
        if "le" in labels:
            pairs.append(f'le="{labels["le"]}"')
        name = f"{name}{{{','.join(pairs)}}}"
    return f"{name} {number_text(sample.value)}\n"
