"""Metrics of admission under upstream's names (apiserver ``admission/metrics``, ``policy/*/metrics``, pod-security-admission)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kapi.admission.interface import Pass, Tally
from kapi.machinery.meters import Counter, Histogram, Labels, counter, histogram, metric_family
from kapi.machinery.reloads import Reloads

_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS = (*_BUCKETS, 10.0, 25.0)
_CONDITION_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
_POLICY_BUCKETS = (0.0000005, 0.001, 0.01, 0.1, 1.0)


class Meter(Collector):
    """The metrics of one server's chain of plugins.  Registers itself with ``registry``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._controllers = histogram("apiserver_admission_controller_admission_duration_seconds", _BUCKETS)
        self._tallies: dict[tuple[Labels, ...], Tally] = {}  # by the labels of the plugins that were not called
        self._steps = histogram("apiserver_admission_step_admission_duration_seconds", _BUCKETS)
        self._webhooks = histogram("apiserver_admission_webhook_admission_duration_seconds", _WEBHOOK_BUCKETS)
        self._webhook_requests = counter("apiserver_admission_webhook_request_total")
        self.webhook_rejections = counter("apiserver_admission_webhook_rejection_count")
        self.webhook_fail_open = counter("apiserver_admission_webhook_fail_open_count")
        self.condition_errors = counter("apiserver_admission_match_condition_evaluation_errors_total")
        self.condition_exclusions = counter("apiserver_admission_match_condition_exclusions_total")
        self._conditions = histogram("apiserver_admission_match_condition_evaluation_seconds", _CONDITION_BUCKETS)
        self._checks: dict[str, tuple[Counter, Histogram]] = {
            kind: (
                counter(f"apiserver_{kind}_admission_policy_check_total"),
                histogram(f"apiserver_{kind}_admission_policy_check_duration_seconds", _POLICY_BUCKETS),
            )
            for kind in ("validating", "mutating")
        }
        self.pod_evaluations = counter("pod_security_evaluations_total")
        self.pod_exemptions = counter("pod_security_exemptions_total")
        self.pod_errors = counter("pod_security_errors_total")
        self.manifests = Reloads("manifest_admission", registry)
        registry.register(self)

    def controllers(self, found: Pass, rejected: bool, marks: Sequence[float]) -> None:
        """Called after plugins were called one after the other.

        ``marks`` are the times before the first call and after each successful call; a plugin that has ``rejected`` is the next
        one, and ends now.  Plugins before it that were not called have taken no time.
        """
        self._controllers.observe_spans(marks, found.labels, found.spans)
        if not rejected:
            tally = found.tally
            if tally is None:
                labels = found.not_called()
                tally = found.tally = self._tallies.setdefault(labels, Tally())
            tally.passed += 1
            return
        rejecting = found.called[len(marks) - 1]
        self._controllers.observe(time.perf_counter() - marks[-1], rejecting.name, found.operation, "true", found.kind)
        for each in found.not_called(rejecting):
            self._controllers.more(1, 0.0, *each)

    def _count_passes(self) -> None:
        """Adds the passes of plugins that were not called to the histogram."""
        for labels, tally in self._tallies.items():
            if tally.passed:
                for each in labels:
                    self._controllers.more(tally.passed, 0.0, *each)
                tally.passed = 0

    def step(self, kind: str, operation: str, rejected: bool, seconds: float) -> None:
        """A whole pass."""
        self._steps.observe(seconds, operation, "true" if rejected else "false", kind)

    def webhook(self, name: str, operation: str, kind: str, code: int, rejected: bool, seconds: float) -> None:
        """One call of a webhook; ``code`` is the status of its answer, 0 for an error of this server."""
        word = "true" if rejected else "false"
        self._webhooks.observe(seconds, name, operation, word, kind)
        self._webhook_requests.add(str(min(code, 600)), name, operation, word, kind)

    def conditions(self, name: str, kind: str, type_: str, operation: str, seconds: float, errors: int) -> None:
        """Match conditions of a webhook or policy (``kind``) were evaluated, with so many errors."""
        self._conditions.observe(seconds, name, kind, type_, operation)
        if errors:
            self.condition_errors.add(name, kind, type_, operation, by=errors)

    def policy(self, kind: str, policy: str, binding: str, error: str, seconds: float, *action: str) -> None:
        """One check of a policy; ``kind`` is validating or mutating, ``action`` deny, audit or warn for the former."""
        checks, durations = self._checks[kind]
        checks.add(policy, binding, error, *action)
        durations.observe(seconds, policy, binding, error, *action)

    def collect(self) -> Iterator[Metric]:
        self._count_passes()
        yield from self._summary()
        for part in (
            self._controllers, self._steps, self._webhooks, self._webhook_requests, self.webhook_rejections,
            self.webhook_fail_open, self.condition_errors, self.condition_exclusions, self._conditions,
            *(part for pair in self._checks.values() for part in pair),
            self.pod_evaluations, self.pod_exemptions, self.pod_errors,
        ):  # fmt: skip
            yield from part.collect()

    def _summary(self) -> Iterator[Metric]:
        """The steps' durations as a summary, as upstream in addition to the histogram; without quantiles."""
        family = metric_family("apiserver_admission_step_admission_duration_seconds_summary")
        for key, row in sorted(self._steps.rows.items()):
            family.add_metric(list(key), int(sum(row[:-1])), row[-1])
        yield family


__all__ = ["Meter"]
