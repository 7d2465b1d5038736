"""Node ports: one tiny object in the store per port, so that taking one is atomic for all processes.

Upstream keeps a bitmap (``pkg/registry/core/service/portallocator``).  A reservation that no Service owns, left by a
crash between reservation and commit, is found by the repair loop (``kapi.controllers.servicerepair``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cached_property

from kapi.codecs.split import encode_halves
from kapi.machinery.checkpoint import commit
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry.allocators.choice import RANDOM
from kapi.registry.allocators.errors import AllocationError, Full, OutOfRange, Taken
from kapi.registry.allocators.metrics import DYNAMIC, PORT_ERRORS, PORTS_TAKEN, STATIC
from kapi.resources.core.services.allocation import port_candidates
from kapi.store.errors import KeyExists, KeyMissing, RevisionConflict
from kapi.store.interface import Store
from kapi.watchcache.cache import Cache
from kapi.watchcache.unreadable import Unreadable

RESERVATIONS = GroupResource("", "nodeportreservations")
_PREFIX = "core/nodeportreservations//"


class NodePorts:
    """The ports from ``low`` to ``high``.  ``cache`` gives the watch cache of the reservations."""

    def __init__(
        self, store: Store, cache: Callable[[], Cache], low: int, high: int, choose: random.Random = RANDOM
    ) -> None:
        self._store = store
        self._make_cache = cache
        self.low = low
        self.high = high
        self._random = choose

    @cached_property
    def _cache(self) -> Cache:
        return self._make_cache()

    def has(self, port: int) -> bool:
        """Whether this process knows of a reservation; the store alone decides."""
        try:
            return self._cache.get("", str(port)) is not None
        except Unreadable:
            return True

    def reserved(self) -> dict[int, Object]:
        """Every reservation: port -> who made it, and when it was seen first."""
        entries, _ = self._cache.list("", None)
        return {int(entry.name): entry.object for entry in entries}

    def count(self) -> int:
        """How many reservations there are."""
        return len(self._cache)

    def check(self, port: int) -> None:
        """Raises OutOfRange."""
        if not self.low <= port <= self.high:
            raise OutOfRange(
                f"provided port is not in the valid range. The range of valid ports is {self.low}-{self.high}"
            )

    async def take(self, port: int, owner: str) -> None:
        """Reserves a port.  Raises OutOfRange, Taken, StoreUnavailable."""
        self.check(port)
        head, tail = encode_halves(
            {"kind": "NodePortReservation", "apiVersion": "v1", "metadata": {"name": str(port)}, "owner": owner}
        )
        try:
            commit()
            await self._store.create(f"{_PREFIX}{port}", head, tail)
        except KeyExists:
            raise Taken("provided port is already allocated") from None

    def free_ports(self) -> Iterator[int]:
        """Ports that look free, in the order they are tried."""
        return (port for port in port_candidates(self.low, self.high, self._random) if not self.has(port))

    async def take_any(self, owner: str) -> int:
        """Reserves some port.  Raises Full, StoreUnavailable."""
        for port in self.free_ports():
            try:
                await self.take(port, owner)
            except Taken:
                continue  # another process was faster
            return int(port)
        raise Full

    async def give_back(self, port: int) -> None:
        """Ends a reservation; nothing happens when there is none."""
        key = f"{_PREFIX}{port}"
        while True:
            stored = await self._store.get(key)
            if stored is None:
                return
            head, tail = encode_halves(
                {"kind": "NodePortReservation", "apiVersion": "v1", "metadata": {"name": str(port)}}
            )
            try:
                await self._store.delete(key, stored.revision, head, tail)
            except RevisionConflict:
                continue
            except KeyMissing:
                return
            return


class PortOperation:
    """The ports of one write: those it allocated are released when it fails, those it gives up when it succeeds."""

    def __init__(self, ports: NodePorts, owner: str, dry_run: bool) -> None:
        self._ports = ports
        self._owner = owner
        self._dry_run = dry_run
        self._taken: list[int] = []
        self._given_up: list[int] = []

    async def take(self, port: int) -> None:
        """Raises AllocationError."""
        if self._dry_run:
            if port in self._taken or self._ports.has(port):
                raise Taken("provided port is already allocated")
            # upstream's dry run does not look at the range
        else:
            try:
                await self._ports.take(port, self._owner)
            except AllocationError:
                PORT_ERRORS.add(STATIC)
                raise
            PORTS_TAKEN.add(STATIC)
        self._taken.append(port)

    async def take_any(self) -> int:
        """Raises Full."""
        if not self._dry_run:
            try:
                port = await self._ports.take_any(self._owner)
            except Full:
                PORT_ERRORS.add(DYNAMIC)
                raise
            PORTS_TAKEN.add(DYNAMIC)
        else:
            port = next((free for free in self._ports.free_ports() if free not in self._taken), 0)
            if not port:
                raise Full
        self._taken.append(port)
        return port

    def give_up(self, port: int) -> None:
        self._given_up.append(port)

    def ended(self, committed: bool) -> list[int]:
        """The ports to give back."""
        return self._given_up if committed else self._taken
