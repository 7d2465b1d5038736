"""The generic registry: what create, update, delete, get and list do to any resource (upstream: apiserver ``registry/generic``).

Here belong the optimistic loop, metadata, finalizers, grace, the order of strategy, admission and validation, the allocators
and the in-process client.  Not here: rules of one type (``kapi.resources``), HTTP (``kapi.endpoints``), and how bytes are kept
(``kapi.store``, ``kapi.watchcache``).
Start reading with ``resource_store.py`` and ``update.py``.
"""
