"""What does not fit between Services, IPAddresses and node port reservations, and what to do about it.

Upstream: ``pkg/registry/core/service/{ipallocator,portallocator}/controller``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from kapi.controllers.events import Occurrence
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import MANAGED_BY_LABEL, MANAGER
from kapi.resources.core.services.access import cluster_ips, node_ports, spec_of
from kapi.resources.core.services.allocation import holds
from kapi.resources.shared.addresses import Address, Network, parse

#: an address is taken before its Service is written; upstream waits as long as a request may last
GRACE = 60.0
_IP, _ADDRESS = "ClusterIPAllocation", "IPAddressAllocation"


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
            elif owner != (namespace, name):
                if ip in service_addresses(by_key[owner]):
                    note = f"Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service"
                    plan.news.append(Occurrence(service, "ClusterIPAlreadyAllocated", _IP, note))
            elif not is_managed(address):
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


def ports_in_use(services: Iterable[Object]) -> dict[int, str]:
    """Port -> the Service (namespace/name) that uses it, health check ports included."""
    used: dict[int, str] = {}
    for service in services:
        metadata, spec = service["metadata"], spec_of(service)
        owner = f"{metadata['namespace']}/{metadata['name']}"
        for port in [*node_ports(service), spec.get("healthCheckNodePort") or 0]:
            if port:
                used.setdefault(int(port), owner)
    return used


def plan_ports(
    used: Mapping[int, str], reserved: Collection[int], unowned_since: Mapping[int, float], now: float
) -> tuple[dict[int, str], list[int], dict[int, float]]:
    """(reservations to make, to give back, reservations without an owner and since when that is known)."""
    missing = {port: owner for port, owner in used.items() if port not in reserved}
    unowned = {port: unowned_since.get(port, now) for port in reserved if port not in used}
    leaked = [port for port, since in unowned.items() if now - since > GRACE]
    return missing, leaked, {port: since for port, since in unowned.items() if port not in leaked}
