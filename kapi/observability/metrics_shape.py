"""Which metrics are shown, and with which label values (upstream: component-base ``metrics/opts.go``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

UNEXPECTED = "unexpected"  # what any other value of a label becomes


class Shape:
    """``disabled`` are names of metrics; ``labels`` says which values of which labels of a metric are shown."""

    def __init__(self, disabled: Collection[str], labels: Mapping[str, Mapping[str, Collection[str]]]) -> None:
        self._disabled = frozenset(disabled)
        self._labels = labels

        self._hidden: set[str] = set()
        self._unexpected: set[tuple[str, str, str]] = set()

    @property
    def hidden(self) -> int:
        """How many metrics are disabled."""
        return len(self._hidden)

    @property
    def unexpected(self) -> int:
        """How many label values were replaced by "unexpected"."""
        return len(self._unexpected)

    def shaped(self, family: Metric) -> Metric | None:
        names = {family.name, f"{family.name}_total"}
        if names & self._disabled:
            self._hidden.add(family.name)
            return None
        limits = next((self._labels[name] for name in names if name in self._labels), None)
        if limits is not None:
            for sample in family.samples:
                for label, values in limits.items():
                    value = sample.labels.get(label)
                    if value is not None and value not in values:
                        self._unexpected.add((family.name, label, value))
            family.samples = _limited(family.samples, limits)
        return family


def _limited(samples: list[Sample], limits: Mapping[str, Collection[str]]) -> list[Sample]:
    """Replaces label values that are not shown; series that become equal are added up."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in samples:
        labels = {
            name: value if name not in limits or value in limits[name] else UNEXPECTED
            for name, value in sample.labels.items()
        }
        key = (sample.name, tuple(labels.items()))
        found[key] = found.get(key, 0.0) + sample.value
    return [Sample(name, dict(labels), value) for (name, labels), value in found.items()]
