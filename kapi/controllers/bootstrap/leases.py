"""Which servers share the store now: each renews an entry under its address, which expires when it no longer does.

Upstream: ``pkg/controlplane/reconcilers/lease.go``.  A server that has the store for itself needs none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kapi.codecs.split import encode_halves
from kapi.machinery.gvk import GroupResource
from kapi.store.errors import KeyExists, KeyMissing, RevisionConflict
from kapi.store.interface import Store
from kapi.watchcache.cache import Cache

LEASES = GroupResource("", "masterleases")
SECONDS = 15.0
_PREFIX = "core/masterleases//"


class ServerLeases:
    """``cache`` is the watch cache of the entries, ``clock`` gives unix seconds."""

    def __init__(self, store: Store, cache: Cache, clock: Callable[[], float]) -> None:
        self._store = store
        self._cache = cache
        self._clock = clock

    def addresses(self) -> list[str]:
        """The addresses of the servers that are alive."""
        now = self._clock()
        entries, _ = self._cache.list("", None)
        return sorted(entry.name for entry in entries if entry.object.get("until", 0) > now)

    def _halves(self, address: str, until: float) -> Any:
        return encode_halves({"kind": "MasterLease", "apiVersion": "v1", "metadata": {"name": address}, "until": until})

    async def renew(self, address: str) -> None:
        """Raises StoreUnavailable."""
        key, until = f"{_PREFIX}{address}", self._clock() + SECONDS
        halves = self._halves(address, until)
        while True:
            try:
                stored = await self._store.get(key)
                if stored is None:
                    await self._store.create(key, *halves, expires=until)
                else:
                    await self._store.update(key, stored.revision, *halves, expires=until)
                return
            except (KeyExists, KeyMissing, RevisionConflict):
                continue  # another worker of this server

    async def end(self, address: str) -> None:
        key = f"{_PREFIX}{address}"
        stored = await self._store.get(key)
        if stored is None:
            return
        try:
            await self._store.delete(key, stored.revision, *self._halves(address, 0))
        except (KeyMissing, RevisionConflict):
            return
