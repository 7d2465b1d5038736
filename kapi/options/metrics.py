"""Metrics flags (upstream: component-base ``metrics/options.go``, ``metrics/opts.go``)."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from kapi.options.errors import ConfigError, read_yaml
from kapi.options.flags import FlagError, FlagSet, mapping, string, strings, value

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_OF_METRIC = re.compile(rf"{_NAME.pattern},[a-zA-Z_][a-zA-Z0-9_]*")
_HIDDEN = "1.35"  # the minor version whose deprecated metrics can be shown


def allowed_labels(text: str) -> dict[str, str]:
    """``metric,label=value,value`` is one pair, since commas also separate values; with several pairs each is in quotes.

    Upstream: pflag's ``stringToString``, which reads a line of CSV if there is more than one ``=``.
    """
    parts = next(csv.reader([text])) if text.count("=") > 1 else [text.strip('"')]
    pairs = {}
    for part in parts:
        key, mark, values = part.partition("=")
        if not mark:
            raise FlagError(f"{part} must be formatted as key=value")
        if not _LABEL_OF_METRIC.fullmatch(key):
            raise FlagError(f"{part} must be formatted as metric,label=values")
        pairs[key] = values.strip("\"'")
    return pairs


class MetricsOptions(FlagSet):
    title = "Metrics"

    allow_metric_labels = mapping(
        allowed_labels,
        'metric,label=values: any other value of the label is shown as "unexpected"; may be repeated.',
        type="stringToString",
    )
    allow_metric_labels_manifest = value(string, "", "YAML file of metric,label: values pairs.")
    disabled_metrics = strings((), "Names of metrics that are not shown.")
    show_hidden_metrics_for_version = value(
        string, "", f"The previous minor version, {_HIDDEN}, whose hidden metrics to show.", inert="none are hidden"
    )

    def complete(self) -> None:
        pairs: Mapping[str, str] = self.allow_metric_labels
        if self.allow_metric_labels_manifest:
            pairs = {**self._manifest(), **pairs}
        #: metric -> label -> values
        self.labels: dict[str, dict[str, frozenset[str]]] = {}
        for key, values in pairs.items():
            metric, _, label = key.partition(",")
            self.labels.setdefault(metric, {})[label] = frozenset(value.strip() for value in values.split(","))

    def _manifest(self) -> dict[str, str]:
        path = self.allow_metric_labels_manifest
        found = read_yaml(path, "allow-metric-labels-manifest")
        if not isinstance(found, dict) or not all(isinstance(part, str) for pair in found.items() for part in pair):
            raise ConfigError(f"--allow-metric-labels-manifest: {path}: want a mapping of metric,label to values")
        return found

    def validate(self) -> list[str]:
        errors = [
            f"--disabled-metrics: invalid metric name {name!r}"
            for name in self.disabled_metrics
            if not _NAME.fullmatch(name)
        ]
        version = self.show_hidden_metrics_for_version
        if version and version != _HIDDEN:
            errors.append(f"--show-hidden-metrics-for-version must be omitted or have the value '{_HIDDEN}'")
        return errors
