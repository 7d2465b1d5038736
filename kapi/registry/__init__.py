"""The generic registry: create, update, delete, get and list for all resources (upstream: apiserver ``registry/generic``).

Here belong the optimistic loop, metadata, finalizers, grace, the order of strategy, admission and validation, the allocators
and the in-process client.  Not here: rules of one type (``kapi.resources``), HTTP (``kapi.endpoints``), and the storage of
bytes (``kapi.store``, ``kapi.watchcache``).
Start reading with ``resource_store.py`` and ``update.py``.
"""
