"""Metrics of authorizers, under upstream's names.

Upstream: apiserver ``authorization/metrics``, ``authorization/cel/metrics.go`` and ``authorizer/webhook/metrics``.
"""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import Counter, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CONDITION_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
_NAMED = ("type", "name")


class AuthorizationMeter:
    """Counters of one server."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.decisions = Counter(
            "apiserver_authorization_decisions_total",
            "[ALPHA] Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
            (*_NAMED, "decision"),
        )
        self.webhook_evaluations = Counter(
            "apiserver_authorization_webhook_evaluations_total",
            "[ALPHA] Round-trips to authorization webhooks.",
            ("name", "result"),
        )
        self.webhook_seconds = Histogram(
            "apiserver_authorization_webhook_duration_seconds",
            "[ALPHA] Request latency in seconds.",
            ("name", "result"),
            _SECONDS,
        )
        self.webhook_fail_open = Counter(
            "apiserver_authorization_webhook_evaluations_fail_open_total",
            "[ALPHA] NoOpinion results due to webhook timeout or error.",
            ("name", "result"),
        )
        self.condition_errors = Counter(
            "apiserver_authorization_match_condition_evaluation_errors_total",
            "[ALPHA] Total number of errors when an authorization webhook encounters a match condition error split by "
            "authorizer type and name.",
            _NAMED,
        )
        self.condition_exclusions = Counter(
            "apiserver_authorization_match_condition_exclusions_total",
            "[ALPHA] Total number of exclusions when an authorization webhook is skipped because match conditions "
            "exclude it.",
            _NAMED,
        )
        self.condition_seconds = Histogram(
            "apiserver_authorization_match_condition_evaluation_seconds",
            "[ALPHA] Authorization match condition evaluation time in seconds, split by authorizer type and name.",
            _NAMED,
            _CONDITION_SECONDS,
        )
        if registry is not None:
            for collector in vars(self).values():
                registry.register(collector)
