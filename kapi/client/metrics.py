"""Metrics of requests that the server sends, for example to webhooks and identity providers (upstream: component-base
``metrics/prometheus/restclient``).

Hosts come from the configuration, which may change; beyond ``MAX_HOSTS`` they are counted together.
"""

from __future__ import annotations

from prometheus_client.registry import Collector

from kapi.machinery.meters import Counter, Gauge, Histogram

MAX_HOSTS = 100
OTHERS = "other"
_SIZES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)  # bytes
_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

REQUESTS = Counter(
    "rest_client_requests_total",
    "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
    ("code", "method", "host"),
)
RETRIES = Counter(
    "rest_client_request_retries_total",
    "[ALPHA] Number of request retries, partitioned by status code, verb, and host.",
    ("code", "verb", "host"),
)
SECONDS = Histogram(
    "rest_client_request_duration_seconds",
    "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
    ("verb", "host"),
    _SECONDS,
)
SENT = Histogram(
    "rest_client_request_size_bytes",
    "[ALPHA] Request size in bytes. Broken down by verb and host.",
    ("verb", "host"),
    _SIZES,
)
RECEIVED = Histogram(
    "rest_client_response_size_bytes",
    "[ALPHA] Response size in bytes. Broken down by verb and host.",
    ("verb", "host"),
    _SIZES,
)
#: how often a cached transport could be used for a server
TRANSPORTS = Counter(
    "rest_client_transport_create_calls_total",
    "[ALPHA] Number of calls to get a new transport, partitioned by the result of the operation hit: obtained from the cache, "
    "miss: created and added to the cache, miss-gc: recreated and added back to the cache after being garbage collected, "
    "uncacheable: created and not cached",
    ("result",),
)
ENTRIES = Gauge("rest_client_transport_cache_entries", "[ALPHA] Number of transport entries in the internal cache.")
ENTRIES.set(0)
#: the server uses no credential plugins; these are upstream's values for a server without plugins
_PLUGIN_TTL = Gauge(
    "rest_client_exec_plugin_ttl_seconds",
    "[ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The value is "
    "in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or manage no TLS "
    "certificates, the value will be +INF.",
)
_PLUGIN_TTL.set(float("inf"))
_PLUGIN_AGE = Histogram(
    "rest_client_exec_plugin_certificate_rotation_age",
    "[ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. If auth "
    "exec plugin client certificates are unused, histogram will contain no data.",
    (),
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
