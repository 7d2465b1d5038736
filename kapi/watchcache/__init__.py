"""The watch cache: objects and recent history in memory, and the watches (upstream: apiserver ``pkg/storage/cacher``).

Here belong cache entries, events encoded once for all, watchers with their bounded queues, bookmarks, and waiting for a
revision.  Not here: the stream of one HTTP client (``kapi.endpoints.watch``) and where changes come from (``kapi.store.feed``).
Start reading with ``cache.py`` and ``watch.py``.
"""
