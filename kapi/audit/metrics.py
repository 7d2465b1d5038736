"""Metrics of auditing under upstream's names (apiserver ``audit/metrics.go``)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kapi.machinery.meters import metric_family


class Meter(Collector):
    """Plain numbers, which become metrics at a scrape.  Registers itself with ``registry``."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.events = 0
        self.rejected = 0
        self.levels: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        #: by plugin: when its errors were last logged (monotonic seconds), and the events lost since
        self.last_logged: dict[str, tuple[float, int]] = {}
        if registry is not None:
            registry.register(self)

    def level(self, name: str) -> None:
        self.levels[name] = self.levels.get(name, 0) + 1

    def error(self, plugin: str, count: int) -> None:
        self.errors[plugin] = self.errors.get(plugin, 0) + count

    def collect(self) -> Iterator[Metric]:
        yield metric_family("apiserver_audit_event_total", value=self.events)
        yield metric_family("apiserver_audit_requests_rejected_total", value=self.rejected)
        levels = metric_family("apiserver_audit_level_total")
        for name, count in sorted(self.levels.items()):
            levels.add_metric([name], count)
        yield levels
        errors = metric_family("apiserver_audit_error_total")
        for name, count in sorted(self.errors.items()):
            errors.add_metric([name], count)
        yield errors
