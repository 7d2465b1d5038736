"""Finds the servers that share the store: each process renews an entry with its address, which expires without renewal.

There are two kinds of entries: for the ``kubernetes`` Service, and for requests of servers to each other (KEP-4020).
Upstream: ``pkg/controlplane/reconcilers/lease.go``, apiserver ``reconcilers/peer_endpoint_lease.go``.  A server with an exclusive
store does not need them.

Servers do not trust each other's clocks: an entry has expired when it has not changed for its lifetime by the observer's own
monotonic clock.  The store's expiry only removes entries of servers that have ended.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

from twisted.internet.interfaces import IReactorTime

from kapi.codecs.split import encode_halves
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.machinery.uid import new_uid
from kapi.runtime.persistent import Persistent, release
from kapi.store.errors import KeyExists, KeyMissing, RevisionConflict
from kapi.store.interface import Store
from kapi.watchcache.cache import Cache

LEASES = GroupResource("", "masterleases")
PEER_LEASES = GroupResource("", "peerserverleases")
LIFETIME_SECONDS = 15.0
_KEPT_SECONDS = 60.0  # until the store drops an entry that is not renewed
_RENEWAL_SECONDS = 10.0


class ServerLeases:
    """``cache`` is the watch cache of the entries, LEASES or PEER_LEASES; ``server`` is the server's id in the entry.

    ``clock`` returns unix seconds, ``seconds`` the time of a monotonic clock.

    Several processes may serve one address: each has its own entry, so that the end of a process does not remove the
    address.
    """

    def __init__(
        self, store: Store, cache: Cache, clock: Callable[[], float], seconds: Callable[[], float], server: str = ""
    ) -> None:
        self._process = new_uid()
        self._server = {"server": server} if server else {}
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
        found = (entry.get("address", name) for name, entry in self._living(others))
        return sorted({address for address in found if _is_address(address)})

    def servers(self) -> dict[str, list[str]]:
        """The addresses, each with its port, of the living servers by their ids."""
        found: dict[str, list[str]] = {}
        for _, entry in self._living():
            server, address = entry.get("server"), entry.get("address")
            if isinstance(server, str) and isinstance(address, str) and address not in found.setdefault(server, []):
                found[server].append(address)
        return found

    def _living(self, others: bool = False) -> Iterator[tuple[str, Object]]:
        """The names and contents of the entries that have changed within their lifetime."""
        now = self._seconds()
        # after a pause of this process, or an outage of the store, the others get the time to renew theirs
        before = self._observed if now - self._observed_at < LIFETIME_SECONDS else {}
        self._observed, self._observed_at = {}, now
        for entry in self._cache.list("", None)[0]:
            known = before.get(entry.name)
            since = known[1] if known is not None and known[0] == entry.revision else now
            self._observed[entry.name] = entry.revision, since
            if now - since < LIFETIME_SECONDS and not (others and entry.name.endswith(self._process)):
                yield entry.name, entry.object

    def _key(self, address: str) -> str:
        return f"core/{self._cache.resource.resource}//{address}-{self._process}"

    def _halves(self, address: str) -> tuple[bytes, bytes]:
        entry = {"kind": "MasterLease", "apiVersion": "v1", "metadata": {"name": f"{address}-{self._process}"}}
        return encode_halves({**entry, "address": address, **self._server})

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


class PeerEndpointController:
    """Tells other servers the ``address``, host and port, for their requests; without ``leases`` there are none."""

    name = "peer-endpoint-reconciler-controller"

    def __init__(self, leases: ServerLeases | None, reactor: IReactorTime, address: str) -> None:
        self._leases = leases
        self._reactor = reactor
        self._address = address
        self._work = Persistent("peer endpoint lease", self.run_once, reactor, _RENEWAL_SECONDS)

    async def start(self) -> None:
        if self._leases is not None:
            self._work.begin()

    async def stop(self) -> None:
        """Removes the address: other servers stop sending requests."""
        self._work.stop()
        if self._leases is not None:
            await release("peer endpoint lease", self._leases.end(self._address), self._reactor)

    async def run_once(self) -> None:
        """Raises StoreUnavailable."""
        assert self._leases is not None
        await self._leases.renew(self._address)
        self._leases.servers()  # an entry's age is known only while entries are looked at


def _is_address(found: object) -> bool:
    try:
        return isinstance(found, str) and bool(ipaddress.ip_address(found))
    except ValueError:
        return False
