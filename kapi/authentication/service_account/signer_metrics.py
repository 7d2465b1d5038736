"""Metrics of the signer of tokens, under upstream's names (upstream: ``pkg/serviceaccount/externaljwt/metrics``)."""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import Counter, Gauge, Histogram

_PREFIX = "apiserver_externaljwt_"
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class SignerMeter:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.fetched_at = Gauge(
            f"{_PREFIX}fetch_keys_success_timestamp",
            "[ALPHA] Unix Timestamp in seconds of the last successful FetchKeys request",
        )
        self.data_at = Gauge(
            f"{_PREFIX}fetch_keys_data_timestamp",
            "[ALPHA] Unix Timestamp in seconds of the last successful FetchKeys data_timestamp value returned by the "
            "external signer",
        )
        self.fetches = Counter(
            f"{_PREFIX}fetch_keys_request_total", "[ALPHA] Total attempts at syncing supported JWKs", ("code",)
        )
        self.signatures = Counter(f"{_PREFIX}sign_request_total", "[ALPHA] Total attempts at signing JWT", ("code",))
        self.latency = Histogram(
            f"{_PREFIX}request_duration_seconds",
            "[ALPHA] Request duration and time for calls to external-jwt-signer",
            ("method", "code"),
            _SECONDS,
        )
        for collector in (self.fetched_at, self.data_at, self.fetches, self.signatures, self.latency):
            registry.register(collector)

    def called(self, method: str, code: str, seconds: float) -> None:
        self.latency.observe(seconds, method, code)
