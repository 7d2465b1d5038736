"""What of the metrics is shown: some are off, some labels have few values (upstream: component-base ``metrics/opts.go``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

UNEXPECTED = "unexpected"  # what any other value of a label becomes


class Collects(Protocol):
    def collect(self) -> Iterator[Metric]: ...


class Shape:
    """``disabled`` are names of metrics; ``labels`` says which values of which labels of a metric are shown."""

    def __init__(self, disabled: Collection[str], labels: Mapping[str, Mapping[str, Collection[str]]]) -> None:
        self._disabled = frozenset(disabled)
        self._labels = labels

    def of(self, registry: Any) -> Collects:
        return _Shaped(registry, self)

    def shaped(self, family: Metric) -> Metric | None:
        names = {family.name, f"{family.name}_total"}
        if names & self._disabled:
            return None
        limits = next((self._labels[name] for name in names if name in self._labels), None)
        if limits is not None:
            family.samples = _limited(family.samples, limits)
        return family


class _Shaped:
    def __init__(self, registry: Any, shape: Shape) -> None:
        self._registry, self._shape = registry, shape

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            shown = self._shape.shaped(family)
            if shown is not None:
                yield shown


def _limited(samples: list[Sample], limits: Mapping[str, Collection[str]]) -> list[Sample]:
    """Series that become one are added up."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in samples:
        labels = {
            name: value if name not in limits or value in limits[name] else UNEXPECTED
            for name, value in sample.labels.items()
        }
        key = (sample.name, tuple(labels.items()))
        found[key] = found.get(key, 0.0) + sample.value
    return [Sample(name, dict(labels), value) for (name, labels), value in found.items()]
