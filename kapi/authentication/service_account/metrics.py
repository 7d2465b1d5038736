"""Metrics of service account tokens and of calls to the external signer, under upstream's names.

Upstream: ``pkg/serviceaccount/metrics.go``, ``pkg/serviceaccount/externaljwt/metrics``.
"""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import Counter, Gauge, Histogram


class TokenMeter:
    """Counters of one server."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        def counter(name: str, text: str) -> Counter:
            made = Counter(f"serviceaccount_{name}", f"[ALPHA] Cumulative {text} used")
            if registry is not None:
                registry.register(made)
            return made

        self.legacy = counter("legacy_tokens_total", "legacy service account tokens")
        self.stale = counter("stale_tokens_total", "stale projected service account tokens")
        self.valid = counter("valid_tokens_total", "valid projected service account tokens")
        self.manual = counter("legacy_manual_token_uses_total", "manually created legacy tokens")
        self.automatic = counter("legacy_auto_token_uses_total", "auto-generated legacy tokens")
        self.invalid = counter("invalid_legacy_auto_token_uses_total", "invalid auto-generated legacy tokens")


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
