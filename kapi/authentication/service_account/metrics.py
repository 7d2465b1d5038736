"""How tokens of service accounts are used, under upstream's names (upstream: ``pkg/serviceaccount/metrics.go``)."""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import Counter


class TokenMeter:
    """Counts for one server."""

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
