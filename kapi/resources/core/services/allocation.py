"""Decides which addresses and ports a write allocates and releases, without I/O.

Upstream: ``pkg/registry/core/service/storage/alloc.go``, ``ipallocator``, ``portallocator``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from kapi.machinery.each import elements
from kapi.machinery.netip import Address, Network
from kapi.machinery.tree import Object
from kapi.resources.core.services.access import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    cluster_ips,
    families,
    may_have_node_ports,
    node_ports,
    spec_of,
    type_of,
)
from kapi.resources.shared.addresses import family_of


class AddressPlan(NamedTuple):
    """The addresses to allocate ("" means any) and to release, by family."""

    allocate: dict[str, str]
    release: dict[str, str]


_NOTHING = AddressPlan({}, {})


def plan_addresses(new: Object, old: Object | None) -> AddressPlan:
    """The plan for the cluster IPs of a create (``old`` None) or an update."""
    if old is None or (type_of(old) == EXTERNAL_NAME != type_of(new)):
        return AddressPlan(_all_of(new), {})
    if cluster_ips(old)[:1] == [HEADLESS]:
        return _NOTHING
    if type_of(new) == EXTERNAL_NAME:
        return AddressPlan({}, owned_addresses(old))
    before, after = families(old), families(new)
    if len(before) == 1 and len(after) == 2:
        return AddressPlan({after[1]: (cluster_ips(new)[1:2] or [""])[0]}, {})
    if len(before) == 2 and len(after) == 1 and len(cluster_ips(old)) == 2:
        return AddressPlan({}, {before[1]: cluster_ips(old)[1]})
    return _NOTHING


def _all_of(service: Object) -> dict[str, str]:
    if type_of(service) == EXTERNAL_NAME or cluster_ips(service)[:1] == [HEADLESS]:
        return {}
    given = cluster_ips(service)
    return {family: given[i] if i < len(given) else "" for i, family in enumerate(families(service))}


def owned_addresses(service: Object) -> dict[str, str]:
    """The allocated addresses of a stored Service, by family."""
    if type_of(service) == EXTERNAL_NAME or cluster_ips(service)[:1] == [HEADLESS]:
        return {}
    return {family_of(ip): ip for ip in elements(cluster_ips(service))}


def write_addresses(service: Object, allocated: dict[str, str]) -> None:
    """Writes the allocated addresses into the Service."""
    if not allocated:
        return
    spec = spec_of(service)
    ips = cluster_ips(service)
    for i, family in enumerate(families(service)):
        if i >= len(ips):
            ips.append("")
        ips[i] = allocated.get(family, ips[i])
    spec["clusterIPs"] = ips
    spec["clusterIP"] = ips[0]


def releases_node_ports(new: Object, old: Object) -> bool:
    return may_have_node_ports(old) and type_of(new) in (EXTERNAL_NAME, CLUSTER_IP)


def owned_node_ports(service: Object) -> list[int]:
    """The allocated node ports of a stored Service, with its health check's."""
    ports = node_ports(service)
    health = (service.get("spec") or {}).get("healthCheckNodePort")
    return [*ports, health] if health else ports


def requested_port(service: Object, number: int) -> int:
    """The node port that the Service requests for its port with this number; 0 without one."""
    for port in elements(service, "spec", "ports"):
        if port.get("port") == number and port.get("nodePort"):
            return int(port["nodePort"])
    return 0


def _band(size: int, step: int, low: int, high: int) -> int:
    """The size of a range's lower part, from which numbers are allocated only when the upper part is full."""
    return 0 if size <= low else max(low, min(high, size // step))


def _around(first: int, last: int, random: Random) -> Iterator[int]:
    """Every number of a range once, starting at a random one."""
    if last < first:
        return
    start = random.randint(first, last)
    yield from range(start, last + 1)
    yield from range(first, start)


def port_candidates(low: int, high: int, random: Random) -> Iterator[int]:
    """Node ports in the order of attempts: the upper part first (KEP-3668)."""
    middle = low + _band(high - low + 1, 32, 16, 128)
    yield from _around(middle, high, random)
    yield from _around(low, middle - 1, random)


def usable_range(network: Network) -> tuple[int, int]:
    """The first and the last address for Services, as numbers."""
    first, last = int(network.network_address) + 1, int(network.broadcast_address)
    return (first, last - 1) if network.version == 4 else (first, last)


def holds(network: Network, address: Address) -> bool:
    """Whether an address is in a range, and a Service may have it."""
    first, last = usable_range(network)
    return address.version == network.version and first <= int(address) <= last


def address_candidates(network: Network, random: Random) -> Iterator[str]:
    """Addresses in the order of attempts: the upper part first (KEP-3070)."""
    first, last = usable_range(network)
    make = ipaddress.IPv4Address if network.version == 4 else ipaddress.IPv6Address
    middle = first + _band(last - first + 1, 16, 16, 256)
    for part in (_around(middle, last, random), _around(first, middle - 1, random)):
        for number in part:
            yield str(make(number))
