"""Metrics of admission under upstream's names (apiserver ``admission/metrics``).

Twenty plugins run for every write, so their durations are counted in plain lists and turned into histograms only
when somebody scrapes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0)
_Key = tuple[str, ...]


class _Durations:
    """A histogram by labels, as lists: one count per bucket, then the sum."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        self.name, self.text, self.labels = name, text, labels
        self.rows: dict[_Key, list[float]] = {}

    def observe(self, key: _Key, seconds: float) -> None:
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = [0.0] * (len(_BUCKETS) + 2)
        row[bisect_left(_BUCKETS, seconds)] += 1
        row[-1] += seconds

    def family(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        for key, row in sorted(self.rows.items()):
            total = 0.0
            buckets = []
            for bound, count in zip((*map(floatToGoString, _BUCKETS), "+Inf"), row, strict=False):
                total += count
                buckets.append((bound, total))
            family.add_metric(list(key), buckets, row[-1])
        return family


class Meter(Collector):
    """Counts for one server.  Registers itself with ``registry``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._controllers = _Durations(
            "apiserver_admission_controller_admission_duration_seconds",
            "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each "
            "operation and API resource and type (validate or admit).",
            ("name", "operation", "rejected", "type"),
        )
        self._steps = _Durations(
            "apiserver_admission_step_admission_duration_seconds",
            "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource "
            "and step type (validate or admit).",
            ("operation", "rejected", "type"),
        )
        registry.register(self)
        self.webhook_duration = Histogram(
            "apiserver_admission_webhook_admission_duration_seconds",
            "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each "
            "operation and API resource and type (validate or admit).",
            ["name", "operation", "rejected", "type"],
            buckets=_WEBHOOK_BUCKETS,
            registry=registry,
        )
        self.webhook_rejections = Counter(
            "apiserver_admission_webhook_rejection_count",
            "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type "
            "(validating or admit) and operation.",
            ["error_type", "name", "operation", "rejection_code", "type"],
            registry=registry,
        )
        self.webhook_fail_open = Counter(
            "apiserver_admission_webhook_fail_open_count",
            "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type "
            "(validating or mutating).",
            ["name", "type"],
            registry=registry,
        )
        self.webhook_requests = Counter(
            "apiserver_admission_webhook_request",
            "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type "
            "(validating or mutating) and operation.",
            ["code", "name", "operation", "rejected", "type"],
            registry=registry,
        )

        self._webhooks: dict[_Key, tuple[Histogram, Counter]] = {}

    def webhook(self, name: str, operation: str, kind: str, code: int, rejected: bool, seconds: float) -> None:
        """One call of a webhook; ``code`` is what it answered, 0 for an error of ours."""
        key = (name, operation, kind, str(code), "true" if rejected else "false")
        found = self._webhooks.get(key)
        if found is None:  # prometheus_client looks labels up slowly
            found = self._webhooks[key] = (
                self.webhook_duration.labels(name, operation, key[4], kind),
                self.webhook_requests.labels(key[3], name, operation, key[4], kind),
            )
        found[0].observe(seconds)
        found[1].inc()

    def controller(self, name: str, kind: str, operation: str, rejected: bool, seconds: float) -> None:
        """One plugin's call; ``kind`` is admit or validate."""
        self._controllers.observe((name, operation, "true" if rejected else "false", kind), seconds)

    def step(self, kind: str, operation: str, rejected: bool, seconds: float) -> None:
        """A whole pass."""
        self._steps.observe((operation, "true" if rejected else "false", kind), seconds)

    def collect(self) -> Iterator[Metric]:
        yield self._controllers.family()
        yield self._steps.family()


__all__ = ["Meter"]
