"""Health checks as metrics."""

from __future__ import annotations

from kapi.observability.slis import HealthIndicators
from kapi.serving.health import HealthChecks
from tests.filters.requests import request


def test_every_check_has_a_gauge_and_a_counter() -> None:
    healthz, readyz = HealthChecks("/healthz"), HealthChecks("/readyz")
    healthz.add("ping", lambda: "")
    why = ["starting"]
    readyz.add("etcd", lambda: why[0])
    indicators = HealthIndicators([healthz, readyz])
    indicators.exposition(request("/metrics/slis"))
    why[0] = ""
    text = bytes(indicators.exposition(request("/metrics/slis")).body).decode()  # type: ignore[arg-type]
    assert 'kubernetes_healthcheck{name="ping",type="healthz"} 1\n' in text
    assert 'kubernetes_healthcheck{name="etcd",type="readyz"} 1\n' in text
    assert 'kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 1\n' in text
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2\n' in text
