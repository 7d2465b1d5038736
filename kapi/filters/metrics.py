"""Metrics of authentication, authorization and impersonation under upstream's names.

Upstream: apiserver ``endpoints/filters/metrics.go`` and ``filters/impersonation/metrics``.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kapi.machinery.meters import Histogram, coarser, counter, exponential, histogram, metric_family

_SECONDS = exponential(0.001, 2, 15)
_FILTER_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0)
#: a duration is counted once, in the buckets of both lists, from which two metrics are made
_ALL_SECONDS = tuple(sorted({*_SECONDS, *_FILTER_SECONDS}))
_KNOWN = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})


class IdentityMeter:
    """Counters of one server; durations are in seconds."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._users = counter("authenticated_user_requests")
        self._authentications = counter("authentication_attempts")
        self._authentication_seconds = histogram("authentication_duration_seconds", _ALL_SECONDS, shown=_SECONDS)
        self._authorizations = counter("authorization_attempts_total")
        self._authorization_seconds = histogram("authorization_duration_seconds", _ALL_SECONDS, shown=_SECONDS)
        self._impersonations = counter("apiserver_impersonation_attempts_total")
        self._impersonation_seconds = histogram("apiserver_impersonation_attempts_duration_seconds", _SECONDS)
        self._checks = counter("apiserver_impersonation_authorization_attempts_total")
        self._check_seconds = histogram("apiserver_impersonation_authorization_attempts_duration_seconds", _SECONDS)
        if registry is not None:
            for collector in vars(self).values():
                registry.register(collector)
            registry.register(FilterSeconds(self))

    def filter_seconds(self) -> dict[str, Histogram]:
        """The durations of the filters, by name."""
        return {"authentication": self._authentication_seconds, "authorization": self._authorization_seconds}

    def authenticated(self, result: str, seconds: float, user: str = "") -> None:
        """``result``: "success" (of ``user``), "failure" or "error"."""
        self._authentications.add(result)
        self._authentication_seconds.observe(seconds, result)
        if result == "success":
            self._users.add(_category(user))

    def authorized(self, result: str, seconds: float) -> None:
        """``result``: "allowed", "denied", "no-opinion" or "error"."""
        self._authorizations.add(result)
        self._authorization_seconds.observe(seconds, result)

    def impersonated(self, mode: str, allowed: bool, seconds: float) -> None:
        """``mode``: the mode that succeeded; "" when none did."""
        labels = (mode, "allowed" if allowed else "denied")
        self._impersonations.add(*labels)
        self._impersonation_seconds.observe(seconds, *labels)

    def checked(self, mode: str, allowed: bool, seconds: float) -> None:
        labels = (mode, "allowed" if allowed else "denied")
        self._checks.add(*labels)
        self._check_seconds.observe(seconds, *labels)


class FilterSeconds(Collector):
    """Durations of the filters that may call another server; the other filters only read memory."""

    def __init__(self, meter: IdentityMeter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        family = metric_family("apiserver_request_filter_duration_seconds")
        for name, durations in self._meter.filter_seconds().items():
            rows = durations.rows.values()
            row = [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * (len(_ALL_SECONDS) + 2)
            family.add_metric([name], coarser(_ALL_SECONDS, row, _FILTER_SECONDS), row[-1])
        yield family


def _category(user: str) -> str:
    """The label for a user name, which has few values and no personal names."""
    if user in _KNOWN:
        return user
    return "email_id" if "@" in user else "other"
