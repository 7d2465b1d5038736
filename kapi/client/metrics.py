"""Metrics of requests that the server sends, for example to webhooks and identity providers (upstream: component-base
``metrics/prometheus/restclient``).

Hosts come from the configuration, which may change; beyond ``MAX_HOSTS`` they are counted together.
"""

from __future__ import annotations

from prometheus_client.registry import Collector

from kapi.machinery.meters import counter, gauge, histogram

MAX_HOSTS = 100
OTHERS = "other"
_SIZES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)  # bytes
_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

REQUESTS = counter("rest_client_requests_total")
RETRIES = counter("rest_client_request_retries_total")
SECONDS = histogram("rest_client_request_duration_seconds", _SECONDS)
SENT = histogram("rest_client_request_size_bytes", _SIZES)
RECEIVED = histogram("rest_client_response_size_bytes", _SIZES)
#: how often a cached transport could be used for a server
TRANSPORTS = counter("rest_client_transport_create_calls_total")
ENTRIES = gauge("rest_client_transport_cache_entries")
ENTRIES.set(0)
#: the server uses no credential plugins; these are upstream's values for a server without plugins
_PLUGIN_TTL = gauge("rest_client_exec_plugin_ttl_seconds")
_PLUGIN_TTL.set(float("inf"))
_PLUGIN_AGE = histogram(
    "rest_client_exec_plugin_certificate_rotation_age",
    (600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000),
)
COLLECTORS: tuple[Collector, ...] = (
    REQUESTS,
    RETRIES,
    SECONDS,
    SENT,
    RECEIVED,
    TRANSPORTS,
    ENTRIES,
    _PLUGIN_TTL,
    _PLUGIN_AGE,
)
_hosts: set[str] = set()


def _known(host: str) -> str:
    if host in _hosts:
        return host
    if len(_hosts) >= MAX_HOSTS:
        return OTHERS
    _hosts.add(host)
    return host


def attempted(method: str, host: str, code: int | None, size: int, retry: int) -> None:
    """Records a request to ``host`` of ``size`` bytes.  ``code`` is None when there was no answer; ``retry`` counts from 0."""
    host, text = _known(host), "<error>" if code is None else str(code)
    REQUESTS.add(text, method, host)
    if retry:
        RETRIES.add(text, method, host)
    SENT.observe(size, method, host)


def finished(method: str, host: str, seconds: float, answer: int | None) -> None:
    """Records a request with all its attempts.  ``answer`` is in bytes, None when there was no answer."""
    host = _known(host)
    SECONDS.observe(seconds, method, host)
    if answer is not None:
        RECEIVED.observe(answer, method, host)
