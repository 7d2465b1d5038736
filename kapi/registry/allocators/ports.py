"""Allocation of node ports: one small object in the store per port, so that it is atomic for all processes.

Upstream stores a bitmap (``pkg/registry/core/service/portallocator``).  A crash between reservation and commit leaves a
reservation without a Service; the repair loop removes it (``kapi.controllers.servicerepair``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property

from prometheus_client.core import Metric

from kapi.codecs.split import encode_halves
from kapi.machinery.checkpoint import commit
from kapi.machinery.gvk import GroupResource
from kapi.machinery.meters import metric_family
from kapi.machinery.tree import Object
from kapi.registry.allocators.allocation import (
    DYNAMIC,
    PORT_ERRORS,
    PORTS_ALLOCATED,
    RANDOM,
    STATIC,
    AllocationError,
    AlreadyAllocated,
    NotInRange,
    RangeFull,
)
from kapi.resources.core.services.allocation import port_candidates
from kapi.store.errors import KeyExists, KeyMissing, RevisionConflict
from kapi.store.interface import Store
from kapi.watchcache.cache import Cache
from kapi.watchcache.unreadable import Unreadable

RESERVATIONS = GroupResource("", "nodeportreservations")
_PREFIX = "core/nodeportreservations//"


class NodePorts:
    """The ports from ``low`` to ``high``, both included.  ``cache`` returns the watch cache of the reservations."""

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
        """Whether the cache has a reservation; only the store knows for certain."""
        try:
            return self._cache.get("", str(port)) is not None
        except Unreadable:
            return True

    def reserved(self) -> dict[int, Object]:
        """Every reservation: port -> its object, with ``owner``."""
        entries, _ = self._cache.list("", None)
        return {int(entry.name): entry.object for entry in entries if entry.name.isascii() and entry.name.isdigit()}

    def in_use(self) -> list[Metric]:
        """Gauges of reserved and free ports."""
        reserved = len(self._cache)
        return [
            metric_family("kube_apiserver_nodeport_allocator_allocated_ports", value=reserved),
            metric_family(
                "kube_apiserver_nodeport_allocator_available_ports", value=self.high - self.low + 1 - reserved
            ),
        ]

    def check(self, port: int) -> None:
        """Raises NotInRange."""
        if not self.low <= port <= self.high:
            raise NotInRange(
                f"provided port is not in the valid range. The range of valid ports is {self.low}-{self.high}"
            )

    async def allocate(self, port: int, owner: str) -> None:
        """Reserves a port.  Raises NotInRange, AlreadyAllocated, StoreUnavailable."""
        self.check(port)
        head, tail = encode_halves(
            {"kind": "NodePortReservation", "apiVersion": "v1", "metadata": {"name": str(port)}, "owner": owner}
        )
        try:
            commit()
            await self._store.create(f"{_PREFIX}{port}", head, tail)
        except KeyExists:
            raise AlreadyAllocated("provided port is already allocated") from None

    def free_ports(self) -> Iterator[int]:
        """Ports without a reservation in the cache, in the order in which they are tried."""
        return (port for port in port_candidates(self.low, self.high, self._random) if not self.has(port))

    async def allocate_next(self, owner: str) -> int:
        """Reserves any free port.  Raises RangeFull, StoreUnavailable."""
        for port in self.free_ports():
            with suppress(AlreadyAllocated):  # another process was faster
                await self.allocate(port, owner)
                return int(port)
        raise RangeFull

    async def release(self, port: int) -> None:
        """Removes a reservation, if there is one."""
        key = f"{_PREFIX}{port}"
        while (stored := await self._store.get(key)) is not None:
            head, tail = encode_halves(
                {"kind": "NodePortReservation", "apiVersion": "v1", "metadata": {"name": str(port)}}
            )
            with suppress(RevisionConflict, KeyMissing):
                await self._store.delete(key, stored.revision, head, tail)
                return


class PortOperation:
    """The ports of one write (upstream: ``PortAllocationOperation``).

    Allocated ports are released when the write fails, ports of ``release_later`` when it succeeds.
    """

    def __init__(self, ports: NodePorts, owner: str, dry_run: bool) -> None:
        self._ports = ports
        self._owner = owner
        self._dry_run = dry_run
        self._allocated: list[int] = []
        self._released: list[int] = []

    async def allocate(self, port: int) -> None:
        """Raises AllocationError."""
        if self._dry_run:
            if port in self._allocated or self._ports.has(port):
                raise AlreadyAllocated("provided port is already allocated")
            # upstream's dry run does not look at the range
        else:
            try:
                await self._ports.allocate(port, self._owner)
            except AllocationError:
                PORT_ERRORS.add(STATIC)
                raise
            PORTS_ALLOCATED.add(STATIC)
        self._allocated.append(port)

    async def allocate_next(self) -> int:
        """Raises RangeFull."""
        if not self._dry_run:
            try:
                port = await self._ports.allocate_next(self._owner)
            except RangeFull:
                PORT_ERRORS.add(DYNAMIC)
                raise
            PORTS_ALLOCATED.add(DYNAMIC)
        else:
            port = next((free for free in self._ports.free_ports() if free not in self._allocated), 0)
            if not port:
                raise RangeFull
        self._allocated.append(port)
        return port

    def release_later(self, port: int) -> None:
        self._released.append(port)

    def to_release(self, committed: bool) -> list[int]:
        """The ports to release after a write."""
        return self._released if committed else self._allocated
