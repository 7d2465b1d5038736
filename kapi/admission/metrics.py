"""Metrics of admission under upstream's names (apiserver ``admission/metrics``, ``policy/*/metrics``, pod-security-admission)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric, SummaryMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from kapi.admission.interface import Pass, Tally
from kapi.machinery.meters import Counter, Histogram, Labels
from kapi.machinery.reloads import Reloads

_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS = (*_BUCKETS, 10.0, 25.0)
_CONDITION_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
_POLICY_BUCKETS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_PREFIX = "apiserver_admission_"


class Meter(Collector):
    """The metrics of one server's chain of plugins.  Registers itself with ``registry``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._controllers = Histogram(
            _PREFIX + "controller_admission_duration_seconds",
            "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each "
            "operation and API resource and type (validate or admit).",
            ("name", "operation", "rejected", "type"),
            _BUCKETS,
        )
        self._tallies: dict[tuple[Labels, ...], Tally] = {}  # by the labels of the plugins that were not called
        self._steps = Histogram(
            _PREFIX + "step_admission_duration_seconds",
            "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource "
            "and step type (validate or admit).",
            ("operation", "rejected", "type"),
            _BUCKETS,
        )
        self._webhooks = Histogram(
            _PREFIX + "webhook_admission_duration_seconds",
            "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each "
            "operation and API resource and type (validate or admit).",
            ("name", "operation", "rejected", "type"),
            _WEBHOOK_BUCKETS,
        )
        self._webhook_requests = Counter(
            _PREFIX + "webhook_request_total",
            "[ALPHA] Admission webhook request total, by name, type, operation, HTTP code and rejection.",
            ("code", "name", "operation", "rejected", "type"),
        )
        self.webhook_rejections = Counter(
            _PREFIX + "webhook_rejection_count",
            "[ALPHA] Admission webhook rejection count, by name, type, operation, kind of error and HTTP code.",
            ("name", "type", "operation", "error_type", "rejection_code"),
        )
        self.webhook_fail_open = Counter(
            _PREFIX + "webhook_fail_open_count",
            "[ALPHA] Admission webhook fail open count, by name and type (validating or admit).",
            ("name", "type"),
        )
        of_conditions = ("name", "kind", "type", "operation")
        self.condition_errors = Counter(
            _PREFIX + "match_condition_evaluation_errors_total",
            "[ALPHA] Errors of match conditions, by name and kind (webhook or policy), operation and type.",
            of_conditions,
        )
        self.condition_exclusions = Counter(
            _PREFIX + "match_condition_exclusions_total",
            "[ALPHA] Requests that match conditions excluded, by name and kind (webhook or policy), operation and type.",
            of_conditions,
        )
        self._conditions = Histogram(
            _PREFIX + "match_condition_evaluation_seconds",
            "[ALPHA] Time of match conditions, by name and kind (webhook or policy), operation and type.",
            of_conditions,
            _CONDITION_BUCKETS,
        )
        of_policies = ("policy", "policy_binding", "error_type")
        self._checks: dict[str, tuple[Counter, Histogram]] = {
            kind: (
                Counter(
                    f"apiserver_{kind}_admission_policy_check_total",
                    f"{stability} Checks of {kind} admission policies, by policy, binding, error and action taken.",
                    (*of_policies, *action),
                ),
                Histogram(
                    f"apiserver_{kind}_admission_policy_check_duration_seconds",
                    f"{stability} Time of {kind} admission policies, by policy, binding, error and action taken.",
                    (*of_policies, *action),
                    _POLICY_BUCKETS,
                ),
            )
            for kind, stability, action in (
                ("validating", "[BETA]", ("enforcement_action",)),
                ("mutating", "[ALPHA]", ()),
            )
        }
        of_requests = ("request_operation", "resource", "subresource")
        self.pod_evaluations = Counter(
            "pod_security_evaluations_total",
            "[ALPHA] Number of policy evaluations that occurred, not counting ignored or exempt requests.",
            ("decision", "policy_level", "policy_version", "mode", *of_requests),
        )
        self.pod_exemptions = Counter(
            "pod_security_exemptions_total",
            "[ALPHA] Number of exempt requests, not counting ignored or out of scope requests.",
            of_requests,
        )
        self.pod_errors = Counter(
            "pod_security_errors_total",
            "[ALPHA] Number of errors preventing normal evaluation.",
            ("fatal", *of_requests),
        )
        self.manifests = Reloads(
            "manifest_admission", registry, name="admission manifest", stability="[ALPHA]", labels=("plugin",)
        )
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
        counter, histogram = self._checks[kind]
        counter.add(policy, binding, error, *action)
        histogram.observe(seconds, policy, binding, error, *action)

    def collect(self) -> Iterator[Metric]:
        self._count_passes()
        yield self._summary()
        for part in (
            self._controllers, self._steps, self._webhooks, self._webhook_requests, self.webhook_rejections,
            self.webhook_fail_open, self.condition_errors, self.condition_exclusions, self._conditions,
            *(part for pair in self._checks.values() for part in pair),
            self.pod_evaluations, self.pod_exemptions, self.pod_errors,
        ):  # fmt: skip
            yield from part.collect()

    def _summary(self) -> Metric:
        """The steps' durations as a summary, as upstream in addition to the histogram; without quantiles."""
        family = SummaryMetricFamily(
            _PREFIX + "step_admission_duration_seconds_summary",
            "[ALPHA] Admission sub-step latency summary in seconds, broken out for each operation and API resource and "
            "step type (validate or admit).",
            labels=self._steps.labels,
        )
        for key, row in sorted(self._steps.rows.items()):
            family.add_metric(list(key), int(sum(row[:-1])), row[-1])
        return family


__all__ = ["Meter"]
