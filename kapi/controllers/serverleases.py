"""Finds the servers that share the store: each process renews an entry with its address, which expires without renewal.

Upstream: ``pkg/controlplane/reconcilers/lease.go``.  A server with an exclusive store does not need it.

Servers do not trust each other's clocks: an entry has expired when it has not changed for its lifetime by the observer's own
monotonic clock.  The store's expiry only removes entries of servers that have ended.
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
LIFETIME_SECONDS = 15.0
_KEPT_SECONDS = 60.0  # until the store drops an entry that is not renewed
_PREFIX = "core/masterleases//"


class ServerLeases:
    """``cache`` is the watch cache of the entries.  ``clock`` returns unix seconds, ``seconds`` the time of a monotonic clock.

    Several processes may serve one address: each has its own entry, so that the end of a process does not remove the
    address.
    """

    def __init__(self, store: Store, cache: Cache, clock: Callable[[], float], seconds: Callable[[], float]) -> None:
        self._process = new_uid()
        self._store = store
        self._cache = cache
        self._clock = clock
        self._seconds = seconds
        self._observed: dict[str, tuple[int, float]] = {}  # by name: the revision, and since when it is known
        self._observed_at = 0.0

    def addresses(self, *, others: bool = False) -> list[str]:
        """The addresses of the living servers; with ``others`` only of other processes.

        An entry without an address is ignored: it may be of another version.
        """
        now, found = self._seconds(), set()
        # after a pause of this process, or an outage of the store, the others get the time to renew theirs
        before = self._observed if now - self._observed_at < LIFETIME_SECONDS else {}
        self._observed, self._observed_at = {}, now
        for entry in self._cache.list("", None)[0]:
            known = before.get(entry.name)
            since = known[1] if known is not None and known[0] == entry.revision else now
            self._observed[entry.name] = entry.revision, since
            if others and entry.name.endswith(self._process):
                continue
            address = entry.object.get("address", entry.name)
            if now - since < LIFETIME_SECONDS and _is_address(address):
                found.add(address)
        return sorted(found)

    def _key(self, address: str) -> str:
        return f"{_PREFIX}{address}-{self._process}"

    def _halves(self, address: str) -> tuple[bytes, bytes]:
        metadata = {"name": f"{address}-{self._process}"}
        return encode_halves({"kind": "MasterLease", "apiVersion": "v1", "metadata": metadata, "address": address})

    async def renew(self, address: str) -> None:
        """Raises StoreUnavailable."""
        key, until = self._key(address), self._clock() + _KEPT_SECONDS
        halves = self._halves(address)
        while True:
            try:
                stored = await self._store.get(key)
                if stored is None:
                    await self._store.create(key, *halves, expires=until)
                else:
                    await self._store.update(key, stored.revision, *halves, expires=until)
                return
            except (KeyExists, KeyMissing, RevisionConflict):
                continue  # it expired meanwhile, or an earlier attempt of this server succeeded after all

    async def end(self, address: str) -> None:
        key = self._key(address)
        stored = await self._store.get(key)
        if stored is None:
            return
        try:
            await self._store.delete(key, stored.revision, *self._halves(address))
        except (KeyMissing, RevisionConflict):
            return


def _is_address(found: object) -> bool:
    try:
        return isinstance(found, str) and bool(ipaddress.ip_address(found))
    except ValueError:
        return False
