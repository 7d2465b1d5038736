"""Metrics of authorizers, under upstream's names.

Upstream: apiserver ``authorization/metrics``, ``authorization/cel/metrics.go`` and ``authorizer/webhook/metrics``.
"""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import counter, histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CONDITION_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)


class AuthorizationMeter:
    """Counters of one server."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.decisions = counter("apiserver_authorization_decisions_total")
        self.webhook_evaluations = counter("apiserver_authorization_webhook_evaluations_total")
        self.webhook_seconds = histogram("apiserver_authorization_webhook_duration_seconds", _SECONDS)
        self.webhook_fail_open = counter("apiserver_authorization_webhook_evaluations_fail_open_total")
        self.condition_errors = counter("apiserver_authorization_match_condition_evaluation_errors_total")
        self.condition_exclusions = counter("apiserver_authorization_match_condition_exclusions_total")
        self.condition_seconds = histogram(
            "apiserver_authorization_match_condition_evaluation_seconds", _CONDITION_SECONDS
        )
        if registry is not None:
            for collector in vars(self).values():
                registry.register(collector)
