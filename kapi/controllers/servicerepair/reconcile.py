"""What does not fit between Services, IPAddresses and node port reservations, and what to do about it.

Upstream: ``pkg/registry/core/service/{ipallocator,portallocator}/controller``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kapi.machinery.time import seconds_of
from kapi.registry.allocators.addresses import MANAGED_BY_LABEL, MANAGER
from kapi.resources.core.services.access import cluster_ips, node_ports, spec_of
from kapi.resources.shared.addresses import family_of, parse

Object = dict[str, Any]
#: an address is taken before its Service is written; upstream waits as long as a request may last
GRACE = 60.0


@dataclass(slots=True)
class AddressPlan:
    """``claim``: (address, family, namespace, name) to be made; ``replace``: those whose object says something else."""

    claim: list[tuple[str, str, str, str]] = field(default_factory=list)
    replace: list[tuple[str, str, str, str]] = field(default_factory=list)
    release: list[str] = field(default_factory=list)


def plan_addresses(services: Iterable[Object], addresses: Iterable[Object], now: float) -> AddressPlan:
    by_name = {address["metadata"]["name"]: address for address in addresses}
    by_key = {(s["metadata"]["namespace"], s["metadata"]["name"]): s for s in services}
    plan = AddressPlan()
    for (namespace, name), service in by_key.items():
        for ip in service_addresses(service):
            claim = (ip, family_of(ip), namespace, name)
            address = by_name.get(ip)
            if address is None:
                plan.claim.append(claim)
                continue
            owner = owner_of(address)
            if owner is None:
                plan.replace.append(claim)
            elif owner != (namespace, name) and owner not in by_key:
                plan.replace.append(claim)
            elif owner == (namespace, name) and not is_managed(address):
                plan.replace.append(claim)
    replaced = {claim[0] for claim in plan.replace}
    for name, address in by_name.items():
        if not is_managed(address) or name in replaced:
            continue
        owner = owner_of(address)
        held_by = None if owner is None else by_key.get(owner)
        if held_by is not None and name in service_addresses(held_by):
            continue
        if now - seconds_of(address["metadata"]["creationTimestamp"]) > GRACE:
            plan.release.append(name)
    return plan


def service_addresses(service: Object) -> list[str]:
    """The cluster IPs that a Service holds, in canonical form."""
    if spec_of(service).get("type") == "ExternalName":
        return []
    return [str(address) for ip in cluster_ips(service) if ip not in ("", "None") and (address := parse(ip))]


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
