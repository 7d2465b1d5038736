"""Storage: bytes under keys, one revision counter, one ordered history (upstream: apiserver ``pkg/storage`` and etcd3).

Here belongs everything that knows Redis: the script of a write, the feed, the embedded server, Sentinels and fail-over; and
the store in memory, which keeps the same contract.  Not here: objects - nothing in this package decodes one - and caches
(``kapi.watchcache``).
Start reading with ``interface.py`` and ``redis_store.py``.
"""
