"""Which servers share the store now: each process renews an entry with its address, which expires when it no longer does.

Upstream: ``pkg/controlplane/reconcilers/lease.go``.  A server that has the store for itself needs none of this.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from kapi.codecs.split import encode_halves
from kapi.machinery.gvk import GroupResource
from kapi.machinery.uid import new_uid
from kapi.store.errors import KeyExists, KeyMissing, RevisionConflict
from kapi.store.interface import Store
from kapi.watchcache.cache import Cache

LEASES = GroupResource("", "masterleases")
SECONDS = 15.0
_PREFIX = "core/masterleases//"


class ServerLeases:
    """``cache`` is the watch cache of the entries, ``clock`` gives unix seconds.

    Several processes may serve one address: each has an entry of its own, so that one that ends does not take the address
    with it.
    """

    def __init__(self, store: Store, cache: Cache, clock: Callable[[], float]) -> None:
        self._process = new_uid()
        self._store = store
        self._cache = cache
        self._clock = clock

    def addresses(self, *, others: bool = False) -> list[str]:
        """The addresses of the servers that are alive; those of ``others`` than this process.

        An entry that says neither an address nor until when is not one of these: servers of other versions share the store.
        """
        now = self._clock()
        entries, _ = self._cache.list("", None)
        found = set()
        for entry in entries:
            if others and entry.name.endswith(self._process):
                continue
            until, address = entry.object.get("until"), entry.object.get("address", entry.name)
            if isinstance(until, (int, float)) and until > now and _is_address(address):
                found.add(address)
        return sorted(found)

    def _key(self, address: str) -> str:
        return f"{_PREFIX}{address}-{self._process}"

    def _halves(self, address: str, until: float) -> tuple[bytes, bytes]:
        metadata = {"name": f"{address}-{self._process}"}
        return encode_halves(
            {"kind": "MasterLease", "apiVersion": "v1", "metadata": metadata, "address": address, "until": until}
        )

    async def renew(self, address: str) -> None:
        """Raises StoreUnavailable."""
        key, until = self._key(address), self._clock() + SECONDS
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
                continue  # it expired meanwhile, or an earlier attempt of ours came through after all

    async def end(self, address: str) -> None:
        key = self._key(address)
        stored = await self._store.get(key)
        if stored is None:
            return
        try:
            await self._store.delete(key, stored.revision, *self._halves(address, 0))
        except (KeyMissing, RevisionConflict):
            return


def _is_address(found: object) -> bool:
    try:
        return isinstance(found, str) and bool(ipaddress.ip_address(found))
    except ValueError:
        return False
