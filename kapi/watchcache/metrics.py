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
    (
        "apiserver_watch_cache_initializations_total",
        "[ALPHA] Counter of watch cache initializations broken by resource type.",
        lambda cache: cache.initializations,
    ),
    (
        "kapi_watch_cache_reloads_total",
        "[ALPHA] Counter of faults after which the cache of a resource was loaded again, broken by resource type.",
        lambda cache: cache.reload.count,
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
    (
        "kapi_unreadable_objects",
        "[ALPHA] Number of stored objects that cannot be read, broken by resource type.",
        lambda cache: len(cache.unreadable),
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
        skipped = CounterMetricFamily(
            "kapi_store_skipped_entries_total",
            "[ALPHA] Counter of entries of the store that kapi did not write and skipped, by where they are.",
            labels=("where",),
        )
        for where, count in caches.skipped.counts.items():
            skipped.add_metric([where], count)
        yield skipped
        yield CounterMetricFamily(
            "kapi_store_resets_total",
            "[ALPHA] Counter of times that the store was found to have lost what it had.",
            value=caches.store.resets,
        )

    return make
