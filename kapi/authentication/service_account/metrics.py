"""Metrics of service account tokens and of calls to the external signer, under upstream's names.

Upstream: ``pkg/serviceaccount/metrics.go``, ``pkg/serviceaccount/externaljwt/metrics``.
"""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import counter, gauge, histogram


class TokenMeter:
    """Counters of one server."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.legacy = counter("serviceaccount_legacy_tokens_total")
        self.stale = counter("serviceaccount_stale_tokens_total")
        self.valid = counter("serviceaccount_valid_tokens_total")
        self.manual = counter("serviceaccount_legacy_manual_token_uses_total")
        self.automatic = counter("serviceaccount_legacy_auto_token_uses_total")
        self.invalid = counter("serviceaccount_invalid_legacy_auto_token_uses_total")
        if registry is not None:
            for collector in vars(self).values():
                registry.register(collector)


_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class SignerMeter:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.fetched_at = gauge("apiserver_externaljwt_fetch_keys_success_timestamp")
        self.data_at = gauge("apiserver_externaljwt_fetch_keys_data_timestamp")
        self.fetches = counter("apiserver_externaljwt_fetch_keys_request_total")
        self.signatures = counter("apiserver_externaljwt_sign_request_total")
        self.latency = histogram("apiserver_externaljwt_request_duration_seconds", _SECONDS)
        for collector in (self.fetched_at, self.data_at, self.fetches, self.signatures, self.latency):
            registry.register(collector)

    def called(self, method: str, code: str, seconds: float) -> None:
        self.latency.observe(seconds, method, code)
