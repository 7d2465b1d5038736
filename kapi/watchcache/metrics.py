"""The metrics of the caches and of the store, with upstream's names.

Upstream: apiserver ``storage/cacher/metrics`` and ``storage/etcd3/metrics``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kapi.machinery.meters import cumulative
from kapi.store.storage_size import store_id
from kapi.watchcache.cache import Cache
from kapi.watchcache.counts import LIST_SECONDS, SIZES, WAITS
from kapi.watchcache.split_caches import AnyCaches

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
        "apiserver_storage_events_received_total",
        "[BETA] Number of etcd events received split by kind.",
        lambda cache: cache.received,
    ),
    (
        "apiserver_storage_list_total",
        "[ALPHA] Number of LIST requests served from storage",
        lambda cache: cache.initializations,
    ),
    (
        "apiserver_storage_list_fetched_objects_total",
        "[ALPHA] Number of objects read from storage in the course of serving a LIST request",
        lambda cache: cache.loaded,
    ),
    (
        "apiserver_storage_list_evaluated_objects_total",
        "[ALPHA] Number of objects tested in the course of serving a LIST request from storage",
        lambda cache: cache.loaded,
    ),
    (
        "apiserver_storage_list_returned_objects_total",
        "[ALPHA] Number of objects returned for a LIST request from storage",
        lambda cache: cache.loaded,
    ),
    (
        "apiserver_cache_list_returned_objects_total",
        "[ALPHA] Number of objects returned for a LIST request from watch cache",
        lambda cache: cache.reads.returned,
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
        "[ALPHA] Current resource version of watch cache broken by resource type. This is truncated to the 15 least significant "
        "digits.",
        lambda cache: cache.revision,
    ),
    (
        "watch_cache_capacity",
        "[ALPHA] Total capacity of watch cache broken by resource type.",
        lambda cache: cache.history,
    ),
    (
        "apiserver_resource_objects",
        "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will "
        "be -1.",
        len,
    ),
    (
        "apiserver_resource_size_estimate_bytes",
        "[ALPHA] Estimated size of stored objects in database. Estimate is based on sum of last observed sizes of serialized "
        "objects. In case of a fetching error, the value will be -1.",
        lambda cache: cache.size,
    ),
    (
        "kapi_unreadable_objects",
        "[ALPHA] Number of stored objects that cannot be read, broken by resource type.",
        lambda cache: len(cache.unreadable),
    ),
)


#: counters without a series until something was counted: most resources are idle
_OBSERVED = frozenset(
    {
        "apiserver_cache_list_returned_objects_total",
        "apiserver_storage_events_received_total",
        "apiserver_terminated_watchers_total",
        "apiserver_watch_cache_events_dispatched_total",
        "apiserver_watch_cache_events_received_total",
    }
)
#: metrics that count objects
_COUNTS = frozenset(
    {"apiserver_storage_objects", "apiserver_resource_objects", "apiserver_resource_size_estimate_bytes"}
)


def _objects(known: list[Cache]) -> Metric:
    family = GaugeMetricFamily(
        "apiserver_storage_objects",
        "[STABLE] [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the time of "
        "last check split by kind. In case of a fetching error, the value will be -1.",
        labels=["resource"],
    )
    for cache in known:
        family.add_metric([str(cache.resource)], len(cache))
    return family


def _reads(known: list[Cache]) -> Iterator[Metric]:
    """Metrics of lists.  The label ``index`` is empty, as upstream's is when only namespace and name are looked up."""
    lists = CounterMetricFamily(
        "apiserver_cache_list_total",
        "[ALPHA] Number of LIST requests served from watch cache",
        labels=(*_LABELS, "index"),
    )
    fetched = CounterMetricFamily(
        "apiserver_cache_list_fetched_objects_total",
        "[ALPHA] Number of objects read from watch cache in the course of serving a LIST request",
        labels=(*_LABELS, "index"),
    )
    consistent = CounterMetricFamily(
        "apiserver_watch_cache_consistent_read_total",
        "[ALPHA] Counter for consistent reads from cache.",
        labels=(*_LABELS, "success", "fallback"),
    )
    waits = HistogramMetricFamily(
        "apiserver_watch_cache_read_wait_seconds",
        "[ALPHA] Histogram of time spent waiting for a watch cache to become fresh.",
        labels=_LABELS,
    )
    for cache in known:
        labels, reads = list(cache.resource), cache.reads
        if reads.lists:
            lists.add_metric([*labels, ""], reads.lists)
            fetched.add_metric([*labels, ""], reads.fetched)
        for success, count in (("true", reads.consistent - reads.failed), ("false", reads.failed)):
            if count:
                consistent.add_metric([*labels, success, "false"], count)
        if any(reads.waits[:-1]):
            waits.add_metric(labels, cumulative(WAITS, reads.waits), reads.waits[-1])
    yield from (lists, fetched, consistent, waits)


def _sent(known: list[Cache]) -> Iterator[Metric]:
    labels = ("group", "version", "resource")
    events = CounterMetricFamily(
        "apiserver_watch_events_total", "[BETA] Number of events sent in watch clients", labels=labels
    )
    sizes = HistogramMetricFamily(
        "apiserver_watch_events_sizes", "[BETA] Watch event size distribution in bytes", labels=labels
    )
    lists = HistogramMetricFamily(
        "apiserver_watch_list_duration_seconds",
        "[BETA] Response latency distribution in seconds for watch list requests broken by group, version, resource and "
        "scope.",
        labels=(*labels, "scope"),
    )
    for cache in known:
        for version, sent in sorted(cache.sent.items()):
            values = [cache.resource.group, version, cache.resource.resource]
            row = sent.row
            if any(row):
                events.add_metric(values, sum(row[:-1]))
                sizes.add_metric(values, cumulative(SIZES, row), row[-1])
            for scope, seconds in sorted(sent.lists.items()):
                lists.add_metric([*values, scope], cumulative(LIST_SECONDS, seconds), seconds[-1])
    yield from (events, sizes, lists)


def _stores(caches: AnyCaches) -> Iterator[Metric]:
    skipped = CounterMetricFamily(
        "kapi_store_skipped_entries_total",
        "[ALPHA] Counter of entries of the store that kapi did not write and skipped, by where they are.",
        labels=("where",),
    )
    counts: Counter[str] = Counter()
    for part in caches.parts:
        counts.update(part.skipped.counts)
    for where, count in counts.items():
        skipped.add_metric([where], count)
    yield skipped
    yield CounterMetricFamily(
        "kapi_store_resets_total",
        "[ALPHA] Counter of times that the store was found to have lost what it had.",
        value=sum(part.store.resets for part in caches.parts),
    )
    available = GaugeMetricFamily(
        "kapi_store_available",
        "[ALPHA] Whether the store answers, 1 or 0, by the store.",
        labels=("storage_cluster_id",),
    )
    for number, part in enumerate(caches.parts):
        available.add_metric([store_id(number)], int(part.store.available))
    yield available


def _sharded(known: list[Cache]) -> Iterator[Metric]:
    """Metrics of the watches of shards, which upstream has behind the feature gate ShardedListAndWatch."""
    watches = GaugeMetricFamily(
        "apiserver_watch_shards_total",
        "[ALPHA] Number of active sharded watch connections broken by resource type.",
        labels=_LABELS,
    )
    filtered = CounterMetricFamily(
        "apiserver_watch_filtered_events_total",
        "[ALPHA] Counter of events filtered out by shard selector during watch dispatch, broken by resource type.",
        labels=_LABELS,
    )
    for cache in known:
        if cache.sharded_watches:
            watches.add_metric(list(cache.resource), cache.sharded_watches)
        if cache.filtered_events:
            filtered.add_metric(list(cache.resource), cache.filtered_events)
    yield from (watches, filtered)


def families(caches: AnyCaches, *, counts: bool = True, sharded: bool = False) -> Callable[[], Iterator[Metric]]:
    """Returns what makes the metrics at a scrape; without ``counts``, those that count objects are left out.

    ``sharded``: with those of shards.
    """

    def make() -> Iterator[Metric]:
        known = sorted(caches.all(), key=lambda cache: cache.resource)
        for name, text, read in _COUNTERS:
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            for cache in known:
                count = read(cache)
                if count or name not in _OBSERVED:
                    counter.add_metric(list(cache.resource), count)
            yield counter
        for name, text, read in _GAUGES:
            if not counts and name in _COUNTS:
                continue
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            for cache in known:
                gauge.add_metric(list(cache.resource), read(cache))
            yield gauge
        if counts:
            yield _objects(known)
        yield from _reads(known)
        yield from _sent(known)
        if sharded:
            yield from _sharded(known)
        yield from _stores(caches)

    return make
