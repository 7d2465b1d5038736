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
    SECONDS,
    SENT,
    RECEIVED,
    TRANSPORTS,
    ENTRIES,
    _PLUGIN_TTL,
    _PLUGIN_AGE,
)
_hosts: set[str] = set()


def sent(method: str, host: str, code: int | None, seconds: float, size: int, answer: int) -> None:
    """Records a request to ``host``.  ``size`` and ``answer`` are bytes; ``code`` is None when there was no answer."""
    if host not in _hosts:
        if len(_hosts) >= MAX_HOSTS:
            host = OTHERS
        else:
            _hosts.add(host)
    REQUESTS.add("<error>" if code is None else str(code), method, host)
    SECONDS.observe(seconds, method, host)
    SENT.observe(size, method, host)
    if code is not None:
        RECEIVED.observe(answer, method, host)
