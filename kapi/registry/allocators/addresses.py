"""Allocation of cluster IPs: an address is allocated by creating the IPAddress object of its name (KEP-1880).

Upstream: ``pkg/registry/core/service/ipallocator``: the allocator over ServiceCIDRs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from prometheus_client.core import Metric

from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.meters import metric_family
from kapi.machinery.netip import Network
from kapi.machinery.tree import Object
from kapi.registry.allocators.allocation import (
    ADDRESS_ERRORS,
    ADDRESS_SECONDS,
    ADDRESSES_ALLOCATED,
    DYNAMIC,
    RANDOM,
    STATIC,
    AllocationError,
    AlreadyAllocated,
    NotInRange,
    RangeFull,
)
from kapi.resources.core.services.access import cluster_ips
from kapi.resources.core.services.allocation import address_candidates, holds, usable_range
from kapi.resources.shared.addresses import parse, parse_network
from kapi.runtime.interface import Client
from kapi.watchcache.cache import Cache

GROUP = "networking.k8s.io"
FAMILY_LABEL = "ipaddress.kubernetes.io/ip-family"
MANAGED_BY_LABEL = "ipaddress.kubernetes.io/managed-by"
MANAGER = "ipallocator.k8s.io"


def is_ready(service_cidr: Object) -> bool:
    """Whether addresses may come from a ServiceCIDR: one without a Ready condition counts, a deleted one does not."""
    if service_cidr["metadata"].get("deletionTimestamp"):
        return False
    for condition in (service_cidr.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True


def ip_address_of(ip: str, family: str, namespace: str, name: str) -> Object:
    """The IPAddress object that records a Service's address."""
    parent = {"resource": "services", "namespace": namespace, "name": name}
    labels = {FAMILY_LABEL: family, MANAGED_BY_LABEL: MANAGER}
    return {"metadata": {"name": ip, "labels": labels}, "spec": {"parentRef": parent}}


def networks_of(service_cidr: Object) -> list[Network]:
    """The ranges of a ServiceCIDR, whether it is ready or not."""
    cidrs = (service_cidr.get("spec") or {}).get("cidrs") or []
    return [parsed[1] for cidr in cidrs if (parsed := parse_network(cidr)) is not None]


def addresses_in_use(client: Client, addresses: Cache) -> list[Metric]:
    """Gauges of allocated and free addresses.  ``addresses`` is the cache of IPAddresses, of which only names are read."""
    taken = metric_family("kube_apiserver_clusterip_allocator_allocated_ips")
    free = metric_family("kube_apiserver_clusterip_allocator_available_ips")
    ranges = client.resource(GROUP, "servicecidrs").lister.list()
    held = [address for one in addresses.list()[0] if (address := parse(one.name)) is not None]
    for network in sorted({network for one in ranges for network in networks_of(one)}, key=str):
        first, last = usable_range(network)
        count = sum(address.version == network.version and first <= int(address) <= last for address in held)
        taken.add_metric([str(network)], count)
        free.add_metric([str(network)], last - first + 1 - count)
    return [taken, free]


class ClusterAddresses:
    """Allocates addresses from all ServiceCIDRs that are ready."""

    def __init__(
        self, client: Client, choose: random.Random = RANDOM, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._addresses = client.resource(GROUP, "ipaddresses")
        self._ranges = client.resource(GROUP, "servicecidrs")
        self._random = choose

    def networks(self, family: str) -> list[Network]:
        """The ranges of a family (``IPv4``, ``IPv6``) that are ready."""
        found: list[Network] = []
        for service_cidr in self._ranges.lister.list():
            if not is_ready(service_cidr):
                continue
            for network in networks_of(service_cidr):
                if f"IPv{network.version}" == family and network not in found:
                    found.append(network)
        return found

    def _check(self, ip: str, family: str, dry_run: bool) -> tuple[str, Network]:
        """The address in canonical form, and its range.  Raises NotInRange."""
        address = parse(ip)
        networks = self.networks(family)
        if address is not None:
            for network in networks:
                if holds(network, address):
                    return str(address), network
        if dry_run and networks:  # upstream asks the allocator of one range
            text = f"the provided IP ({ip}) is not in the valid range. The range of valid IPs is {networks[0]}"
            raise NotInRange(text)
        raise NotInRange("the provided network does not match the current range")

    async def allocate(self, ip: str, family: str, namespace: str, name: str, *, dry_run: bool) -> None:
        """Allocates a given address for a Service.  Raises AllocationError."""
        canonical, network = self._check(ip, family, dry_run)
        if dry_run:
            return
        cidr, began = str(network), self._seconds()
        try:
            await self._create(canonical, family, namespace, name)
        except AllocationError:
            ADDRESS_ERRORS.add(cidr, STATIC)
            raise
        ADDRESSES_ALLOCATED.add(cidr, STATIC)
        ADDRESS_SECONDS.observe(self._seconds() - began, cidr)

    def _taken(self, ip: str) -> bool:
        return self._addresses.lister.get("", ip) is not None

    async def _create(self, ip: str, family: str, namespace: str, name: str) -> None:
        try:
            await self._addresses.create(ip_address_of(ip, family, namespace, name))
        except status.AlreadyExists:
            raise AlreadyAllocated("provided IP is already allocated") from None
        except status.StatusError as error:
            if error.code >= 500:  # the server failed; the address itself may be free
                raise status.service_unavailable(f"no address: {error.message}", retry_after=1) from error
            raise AllocationError(error.message) from error

    async def allocate_next(self, family: str, namespace: str, name: str, *, dry_run: bool) -> str:
        """Allocates any free address.  Raises RangeFull and other AllocationErrors."""
        for network in self.networks(family):
            if dry_run:
                return str(network.network_address)
            cidr, began = str(network), self._seconds()
            for ip in address_candidates(network, self._random):
                if self._taken(ip):
                    continue
                try:
                    await self._create(ip, family, namespace, name)
                except AlreadyAllocated:
                    continue  # another process was faster
                ADDRESSES_ALLOCATED.add(cidr, DYNAMIC)
                ADDRESS_SECONDS.observe(self._seconds() - began, cidr)
                return ip
            ADDRESS_ERRORS.add(cidr, DYNAMIC)
        raise RangeFull

    async def release(self, ip: str) -> None:
        """Frees an address; one that is not allocated is ignored."""
        address = parse(ip)
        try:
            await self._addresses.delete(str(address))
        except status.NotFound:
            return


class UnrecordedAddresses(ClusterAddresses):
    """Allocates addresses of given ranges while ServiceCIDRs and IPAddresses are switched off.

    The addresses in use are read from the Services, so several servers may allocate the same address.
    """

    def __init__(self, client: Client, ranges: Sequence[Network]) -> None:
        super().__init__(client)
        self._client = client
        self._configured = ranges
        self._allocated: set[str] = set()

    def networks(self, family: str) -> list[Network]:
        return [network for network in self._configured if f"IPv{network.version}" == family]

    def _taken(self, ip: str) -> bool:
        services = self._client.resource("", "services").lister.list()
        return ip in self._allocated or any(ip in cluster_ips(each) for each in elements(services))

    async def _create(self, ip: str, family: str, namespace: str, name: str) -> None:
        if self._taken(ip):
            raise AlreadyAllocated("provided IP is already allocated")
        self._allocated.add(ip)

    async def release(self, ip: str) -> None:
        self._allocated.discard(str(parse(ip)))
