"""Repairs inconsistencies between Services, IPAddresses and node port reservations, which a crash may leave.

Compares them at the start and every minute.  Part of the API server: ``--controllers`` does not switch it off.
Upstream: ``pkg/registry/core/service/{ipallocator,portallocator}/controller``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.controllers.events import EventRecorder, Occurrence
from kapi.controllers.watching import QueueController
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.meters import counter
from kapi.machinery.netip import Address, Network
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import (
    FAMILY_LABEL,
    GROUP,
    MANAGED_BY_LABEL,
    MANAGER,
    ip_address_of,
    networks_of,
)
from kapi.registry.allocators.allocation import AllocationError, NotInRange
from kapi.registry.allocators.ports import NodePorts
from kapi.resources.core.services.access import cluster_ips, ports, spec_of
from kapi.resources.core.services.allocation import holds
from kapi.resources.shared.addresses import parse
from kapi.runtime.interface import Client
from kapi.store.errors import StoreError

#: an address is taken before its Service is written; upstream waits as long as a request may last
GRACE = 60.0
_IP, _ADDRESS = "ClusterIPAllocation", "IPAddressAllocation"
#: upstream: ``pkg/registry/core/service/portallocator/controller/metrics.go``
FAILURES = counter("apiserver_nodeport_repair_reconcile_errors_total")
_INTERVAL_SECONDS = 60.0
_FIRST_RANGE_SECONDS = 1.0  # at the first start the ranges are still being made
_ALL = "services"
_ADDRESSES, _PORTS = "ipallocator-repair-controller", "portallocator-repair-controller"


class Claim(NamedTuple):
    """An address that a Service should hold; ``stale`` is the object that says otherwise."""

    ip: str
    family: str
    service: Object
    news: Occurrence | None
    stale: Object | None = None


class Release(NamedTuple):
    address: Object
    news: Occurrence


class AddressPlan(msgspec.Struct):
    """``claim``: to be made; ``replace``: those whose object says something else; ``release``: objects to be deleted;
    ``news``: what nothing is done about.
    """

    claim: list[Claim] = msgspec.field(default_factory=list)
    replace: list[Claim] = msgspec.field(default_factory=list)
    release: list[Release] = msgspec.field(default_factory=list)
    news: list[Occurrence] = msgspec.field(default_factory=list)


def plan_addresses(
    services: Iterable[Object], addresses: Iterable[Object], networks: Collection[Network], now: float
) -> AddressPlan:
    """``networks`` are the ranges of all ServiceCIDRs."""
    by_name = {address["metadata"]["name"]: address for address in addresses}
    by_key = {(s["metadata"]["namespace"], s["metadata"]["name"]): s for s in services}
    plan = AddressPlan()
    for (namespace, name), service in by_key.items():
        for number in _numbers(service):
            ip, family = str(number), f"IPv{number.version}"
            address = by_name.get(ip)
            if networks and not any(holds(network, number) for network in networks):
                note = f"Cluster IP [{family}]: {ip} is not within any configured Service CIDR; please recreate service"
                plan.news.append(Occurrence(service, "ClusterIPOutOfRange", _IP, note))
                continue
            if address is None:
                note = f"Cluster IP [{family}]: {ip} is not allocated; repairing"
                plan.claim.append(Claim(ip, family, service, Occurrence(service, "ClusterIPNotAllocated", _IP, note)))
                continue
            owner = owner_of(address)
            if owner is None or (owner != (namespace, name) and owner not in by_key):
                note = f"the ClusterIP [{family}]: {ip} for Service {namespace}/{name} has a wrong reference; repairing"
                news = Occurrence(service, "ClusterIPNotAllocated", _IP, note)
                plan.replace.append(Claim(ip, family, service, news, address))
                continue
            if owner != (namespace, name) and ip in service_addresses(by_key[owner]):
                note = f"Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service"
                plan.news.append(Occurrence(service, "ClusterIPAlreadyAllocated", _IP, note))
            if not is_managed(address) or address["metadata"]["labels"].get(FAMILY_LABEL) != family:
                plan.replace.append(Claim(ip, family, service, None, address))
    replaced = {claim.ip for claim in plan.replace}
    for name, address in by_name.items():
        if not is_managed(address) or name in replaced:
            continue
        owner = owner_of(address)
        held_by = None if owner is None else by_key.get(owner)
        if held_by is not None and name in service_addresses(held_by):
            continue
        if now - seconds_of(address["metadata"]["creationTimestamp"]) > GRACE:
            plan.release.append(Release(address, _cleaning_up(address, owner, held_by is not None)))
    return plan


def _cleaning_up(address: Object, owner: tuple[str, str] | None, exists: bool) -> Occurrence:
    name, of = address["metadata"]["name"], "/".join(owner or ())
    if owner is None:
        parent = address["spec"].get("parentRef") or {}
        shown = ",".join(
            f"{part.title()}:{parent.get(part, '')}" for part in ("group", "resource", "namespace", "name")
        )
        reference = f"&ParentReference{{{shown},}}"
        note = f"IPAddress {name} appears to have been modified, not referencing a Service {reference}: cleaning up"
        return Occurrence(address, "IPAddressNotAllocated", _ADDRESS, note)
    if exists:
        note = f"IPAddress: {name} for Service {of} has a wrong reference; cleaning up"
        return Occurrence(address, "IPAddressWrongReference", _ADDRESS, note)
    note = f"IPAddress: {name} for Service {of} appears to have leaked: cleaning up"
    return Occurrence(address, "IPAddressNotAllocated", _ADDRESS, note)


def service_addresses(service: Object) -> list[str]:
    """The cluster IPs that a Service holds, in canonical form."""
    return [str(number) for number in _numbers(service)]


def _numbers(service: Object) -> list[Address]:
    if spec_of(service).get("type") == "ExternalName":
        return []
    return [number for ip in cluster_ips(service) if ip not in ("", "None") and (number := parse(ip))]


def is_managed(address: Object) -> bool:
    return bool((address["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER)


def owner_of(address: Object) -> tuple[str, str] | None:
    """(namespace, name) of the Service that an IPAddress names; None when it names something else."""
    parent = (address.get("spec") or {}).get("parentRef") or {}
    if parent.get("group") or parent.get("resource") != "services":
        return None
    return parent.get("namespace", ""), parent.get("name", "")


def ports_in_use(services: Iterable[Object]) -> tuple[dict[int, str], list[tuple[int, str]]]:
    """Port -> the Service (namespace/name) that uses it, and the ports of further Services that use them as well."""
    used: dict[int, str] = {}
    shared = []
    for service in services:
        owner = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
        for port in _allocated_ports(service):
            if port in used:
                shared.append((port, owner))
            else:
                used[port] = owner
    return used, shared


def _allocated_ports(service: Object) -> list[int]:
    """Node ports, each once for all its protocols, and the port of health checks."""
    protocols: dict[int, set[str]] = {}
    found = []
    for entry in elements(ports(service)):
        port, protocol = entry.get("nodePort"), entry.get("protocol", "")
        if port:
            seen = protocols.setdefault(port, set())
            if not seen or protocol in seen:
                found.append(port)
            seen.add(protocol)
    health = spec_of(service).get("healthCheckNodePort")
    if health and "TCP" in protocols.get(health, ("TCP",)):
        found.append(health)
    return found


def plan_ports(
    used: Mapping[int, str], reserved: Collection[int], unowned_since: Mapping[int, float], now: float
) -> tuple[dict[int, str], list[int], dict[int, float]]:
    """(reservations to make, to give back, reservations without an owner and since when that is known)."""
    missing = {port: owner for port, owner in used.items() if port not in reserved}
    unowned = {port: unowned_since.get(port, now) for port in reserved if port not in used}
    leaked = [port for port, since in unowned.items() if now - since > GRACE]
    return missing, leaked, {port: since for port, since in unowned.items() if port not in leaked}


class ServiceRepairController(QueueController[str]):
    """``node_ports`` is what ``kapi.registry.allocators.services`` returned."""

    name = "start-service-ip-repair-controllers"
    workers = 1
    log = Logger()

    def __init__(self, client: Client, node_ports: NodePorts, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._services = client.resource("", "services")
        self._addresses = client.resource(GROUP, "ipaddresses")
        self._ranges = client.resource(GROUP, "servicecidrs")
        self._records_addresses = client.has(GROUP, "ipaddresses")
        self._ports = node_ports
        self._events = EventRecorder(client, now)
        self._now = now
        self._unowned: dict[int, float] = {}
        super().__init__(reactor)

    async def start(self) -> None:
        self._queue.add(_ALL)

    async def _handle(self, key: str) -> float | None:
        await self.run_once()
        waits = self._records_addresses and not self._ranges.lister.list()
        return _FIRST_RANGE_SECONDS if waits else _INTERVAL_SECONDS

    async def run_once(self) -> None:
        now = seconds_of(self._now())
        # before the services: an address allocated meanwhile is too young to be released
        addresses = await self._addresses.list()
        reserved = self._ports.reserved()
        services = await self._services.list()
        ranges = await self._ranges.list()
        networks = [network for service_cidr in ranges for network in networks_of(service_cidr)]
        if self._records_addresses:
            plan = plan_addresses(services, addresses, networks, now)
            for news in plan.news:
                await self._events.warn(_ADDRESSES, news)
            for release in plan.release:
                if await self._delete(release.address):
                    await self._events.warn(_ADDRESSES, release.news)
            for claim in plan.claim + plan.replace:
                await self._claim(claim)
        try:
            await self._repair_ports(set(reserved), services, now)
        except (status.StatusError, StoreError):
            FAILURES.add()
            raise

    async def _delete(self, address: Object) -> bool:
        """Whether the object, and not another of its name, was deleted."""
        name, uid = address["metadata"]["name"], address["metadata"]["uid"]
        try:
            await self._addresses.delete(name, options={"preconditions": {"uid": uid}})
        except (status.NotFound, status.Conflict):
            return False
        self.log.warn("IPAddress {name} does not belong to its Service: cleaning up", name=name)
        return True

    async def _claim(self, claim: Claim) -> None:
        if claim.stale is not None and not await self._delete(claim.stale):
            return
        namespace, name = claim.service["metadata"]["namespace"], claim.service["metadata"]["name"]
        try:
            await self._addresses.create(ip_address_of(claim.ip, claim.family, namespace, name))
        except status.AlreadyExists:
            return  # a Service that was made meanwhile
        self.log.warn(
            "cluster IP {ip} of {namespace}/{name} was not allocated: repaired",
            ip=claim.ip,
            namespace=namespace,
            name=name,
        )
        if claim.news is not None:
            await self._events.warn(_ADDRESSES, claim.news)

    async def _repair_ports(self, reserved: set[int], services: list[Object], now: float) -> None:
        used, shared = ports_in_use(services)
        for port, owner in shared:
            note = f"Port {port} was assigned to multiple services; please recreate service"
            await self._record_port_event(services, owner, "PortAlreadyAllocated", note)
        missing, leaked, self._unowned = plan_ports(used, reserved, self._unowned, now)
        for port, owner in missing.items():
            try:
                await self._ports.allocate(port, owner)
            except NotInRange:
                ports = f"{self._ports.low}-{self._ports.high}"
                note = f"Port {port} is not within the port range {ports}; please recreate service"
                await self._record_port_event(services, owner, "PortOutOfRange", note)
                continue
            except AllocationError:
                continue  # taken just now
            await self._record_port_event(
                services, owner, "PortNotAllocated", f"Port {port} is not allocated; repairing"
            )
            self.log.warn("node port {port} of {owner} was not reserved: repaired", port=port, owner=owner)
        for port in leaked:
            self.log.warn("node port {port} belongs to no Service: given back", port=port)
            await self._ports.release(port)

    async def _record_port_event(self, services: list[Object], owner: str, reason: str, note: str) -> None:
        namespace, _, name = owner.partition("/")
        for service in services:
            if (service["metadata"]["namespace"], service["metadata"]["name"]) == (namespace, name):
                await self._events.warn(_PORTS, Occurrence(service, reason, "PortAllocation", note))
