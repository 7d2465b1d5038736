"""What the caches and the store know of themselves, under upstream's names.

Upstream: apiserver ``storage/cacher/metrics`` and ``storage/etcd3/metrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kapi.watchcache.cache import Cache
from kapi.watchcache.caches import Caches

_LABELS = ("group", "resource")
_COUNTERS: tuple[tuple[str, str, Callable[[Cache], int]], ...] = (
    (
        "apiserver_watch_cache_events_received_total",
        "[ALPHA] Counter of events received in watch cache broken by resource type.",
        lambda cache: cache.received,
    ),
    (
        "apiserver_watch_cache_events_dispatched_total",
        "[ALPHA] Counter of events dispatched in watch cache broken by resource type.",
        lambda cache: cache.dispatched,
    ),
    (
        "apiserver_terminated_watchers_total",
        "[ALPHA] Counter of watchers closed due to unresponsiveness broken by resource type.",
        lambda cache: cache.terminated,
    ),
)
_GAUGES: tuple[tuple[str, str, Callable[[Cache], int]], ...] = (
    (
        "apiserver_watch_cache_resource_version",
        "[ALPHA] Current resource version of watch cache broken by resource type.",
        lambda cache: cache.revision,
    ),
    (
        "apiserver_watch_cache_capacity",
        "[ALPHA] Total capacity of watch cache broken by resource type.",
        lambda cache: cache.history,
    ),
    (
        "apiserver_storage_objects",
        "[STABLE] Number of stored objects at the time of last check split by kind.",
        len,
    ),
    (
        "apiserver_resource_objects",
        "[ALPHA] Number of stored objects at the time of last check split by kind.",
        len,
    ),
    (
        "apiserver_resource_size_estimate_bytes",
        "[ALPHA] Estimated size of stored objects in database.",
        lambda cache: cache.size,
    ),
)


def families(caches: Caches) -> Callable[[], Iterator[Metric]]:
    """Makes the families when somebody scrapes."""

    def make() -> Iterator[Metric]:
        known = sorted(caches.all(), key=lambda cache: cache.resource)
        for name, text, read in _COUNTERS:
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            for cache in known:
                counter.add_metric(list(cache.resource), read(cache))
            yield counter
        for name, text, read in _GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            for cache in known:
                gauge.add_metric(list(cache.resource), read(cache))
            yield gauge

    return make
