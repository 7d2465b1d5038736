"""Storage: bytes under keys, one revision counter, one ordered history (upstream: apiserver ``pkg/storage`` and etcd3).

Here belongs all code that uses Redis (the script of a write, the feed, the embedded server, Sentinels and fail-over) and the
in-memory store with the same contract.  Not here: the contents of objects, which are not decoded in this package, and caches
(``kapi.watchcache``).
Start reading with ``interface.py`` and ``redis_store.py``.
"""
