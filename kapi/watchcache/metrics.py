"""The metrics of the caches and of the store, with upstream's names.

Upstream: apiserver ``storage/cacher/metrics`` and ``storage/etcd3/metrics``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from kapi.machinery.meters import cumulative, metric_family
from kapi.store.storage_size import store_id
from kapi.watchcache.cache import Cache
from kapi.watchcache.counts import LIST_SECONDS, SIZES, WAITS
from kapi.watchcache.split_caches import AnyCaches

_COUNTERS: dict[str, Callable[[Cache], int]] = {
    "apiserver_watch_cache_events_received_total": lambda cache: cache.received,
    "apiserver_watch_cache_events_dispatched_total": lambda cache: cache.dispatched,
    "apiserver_terminated_watchers_total": lambda cache: cache.terminated,
    "apiserver_watch_cache_initializations_total": lambda cache: cache.initializations,
    "apiserver_storage_events_received_total": lambda cache: cache.received,
    "apiserver_storage_list_total": lambda cache: cache.initializations,
    "apiserver_storage_list_fetched_objects_total": lambda cache: cache.loaded,
    "apiserver_storage_list_evaluated_objects_total": lambda cache: cache.loaded,
    "apiserver_storage_list_returned_objects_total": lambda cache: cache.loaded,
    "apiserver_cache_list_returned_objects_total": lambda cache: cache.reads.returned,
    "kapi_watch_cache_reloads_total": lambda cache: cache.reload.count,
}
_GAUGES: dict[str, Callable[[Cache], int]] = {
    "apiserver_watch_cache_resource_version": lambda cache: cache.revision,
    "watch_cache_capacity": lambda cache: cache.history,
    "apiserver_resource_objects": len,
    "apiserver_resource_size_estimate_bytes": lambda cache: cache.size,
    "kapi_unreadable_objects": lambda cache: len(cache.unreadable),
}
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


def _objects(known: list[Cache]) -> Iterator[Metric]:
    family = metric_family("apiserver_storage_objects")
    for cache in known:
        family.add_metric([str(cache.resource)], len(cache))
    yield family


def _reads(known: list[Cache]) -> Iterator[Metric]:
    """Metrics of lists.  The label ``index`` is empty, as upstream's is when only namespace and name are looked up."""
    lists = metric_family("apiserver_cache_list_total")
    fetched = metric_family("apiserver_cache_list_fetched_objects_total")
    consistent = metric_family("apiserver_watch_cache_consistent_read_total")
    waits = metric_family("apiserver_watch_cache_read_wait_seconds")
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
    events = metric_family("apiserver_watch_events_total")
    sizes = metric_family("apiserver_watch_events_sizes")
    lists = metric_family("apiserver_watch_list_duration_seconds")
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
    skipped = metric_family("kapi_store_skipped_entries_total")
    counts: Counter[str] = Counter()
    for part in caches.parts:
        counts.update(part.skipped.counts)
    for where, count in counts.items():
        skipped.add_metric([where], count)
    yield skipped
    yield metric_family("kapi_store_resets_total", value=sum(part.store.resets for part in caches.parts))
    available = metric_family("kapi_store_available")
    for number, part in enumerate(caches.parts):
        available.add_metric([store_id(number)], int(part.store.available))
    yield available


def _sharded(known: list[Cache]) -> Iterator[Metric]:
    """Metrics of the watches of shards, which upstream has behind the feature gate ShardedListAndWatch."""
    watches = metric_family("apiserver_watch_shards_total")
    filtered = metric_family("apiserver_watch_filtered_events_total")
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
        for name, read in _COUNTERS.items():
            counter = metric_family(name)
            for cache in known:
                count = read(cache)
                if count or name not in _OBSERVED:
                    counter.add_metric(list(cache.resource), count)
            yield counter
        for name, read in _GAUGES.items():
            if not counts and name in _COUNTS:
                continue
            gauge = metric_family(name)
            for cache in known:
                gauge.add_metric(list(cache.resource), read(cache))
            yield gauge
        if counts:
            yield from _objects(known)
        yield from _reads(known)
        yield from _sent(known)
        if sharded:
            yield from _sharded(known)
        yield from _stores(caches)

    return make
