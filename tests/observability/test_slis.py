"""Health checks as metrics."""

from __future__ import annotations

import gzip
import time

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
    states, _, start = text.partition("# HELP process_start_time_seconds ")
    assert states.splitlines() == [
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
        "# TYPE kubernetes_healthcheck gauge",
        'kubernetes_healthcheck{name="etcd",type="readyz"} 1',
        'kubernetes_healthcheck{name="ping",type="healthz"} 1',
        "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.",
        "# TYPE kubernetes_healthchecks_total counter",
        'kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="etcd",status="success",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2',
    ]
    help_text, kind, value = start.splitlines()
    assert help_text == "[ALPHA] Start time of the process since unix epoch in seconds."
    assert kind == "# TYPE process_start_time_seconds gauge"
    assert 0 <= time.time() - float(value.removeprefix("process_start_time_seconds ")) < 100_000


def test_a_reset_counts_from_now_on() -> None:
    healthz = HealthChecks("/healthz")
    healthz.add("ping", lambda: "")
    for resets in (True, False):
        indicators = HealthIndicators([healthz], resets=resets, clock=lambda: 1_700_000_000.5)
        assert indicators.exposition(request("/metrics/slis")).headers == ((b"process-start-time-unix", b"1700000000"),)
        answer = indicators.exposition(request("/metrics/slis", method="DELETE"))
        assert (answer.body == b"metrics reset\n") is resets
        text = bytes(indicators.exposition(request("/metrics/slis")).body).decode()  # type: ignore[arg-type]
        assert f'{{name="ping",status="success",type="healthz"}} {1 if resets else 3}\n' in text


def test_the_text_is_compressed_for_clients_that_accept_it_whatever_its_size() -> None:
    healthz = HealthChecks("/healthz")
    healthz.add("ping", lambda: "")
    indicators = HealthIndicators([healthz])
    answer = indicators.exposition(request("/metrics/slis", headers={"accept-encoding": "deflate, gzip"}))
    assert dict(answer.headers)[b"Content-Encoding"] == b"gzip"
    assert b'kubernetes_healthcheck{name="ping",type="healthz"} 1\n' in gzip.decompress(bytes(answer.body))  # type: ignore[arg-type]
    plain = indicators.exposition(request("/metrics/slis", headers={"accept-encoding": "identity"}))
    assert b"Content-Encoding" not in dict(plain.headers)
