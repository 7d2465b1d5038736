"""Connects the allocators with the Service resource of a registry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kapi.machinery.gvk import GroupResource
from kapi.registry.allocators.addresses import GROUP, ClusterAddresses, UnrecordedAddresses
from kapi.registry.allocators.ports import RESERVATIONS, NodePorts
from kapi.registry.allocators.services import ServiceLifecycle
from kapi.registry.registry import Registry
from kapi.resources.shared.addresses import parse_network


def install(registry: Registry, ranges: Sequence[str], port_range: tuple[int, int]) -> NodePorts:
    """Gives Services their lifecycle.  ``ranges`` are the cluster's service CIDRs, the primary family's first.

    Call it once, before the caches start and after the built-in rows were added.  Returns the node ports, which the
    repair controller needs.
    """
    cache = partial(registry.caches.cache, RESERVATIONS, {}, False)
    if not registry.lazy:
        cache()
    node_ports = NodePorts(registry.store, cache, *port_range)

    def lifecycle() -> dict[str, object]:
        networks = [network[1] for network in map(parse_network, ranges) if network is not None]
        families = [f"IPv{network.version}" for network in networks] or ["IPv4"]
        client = registry.client.named("kube-apiserver")
        recorded = client.has(GROUP, "ipaddresses") and client.has(GROUP, "servicecidrs")
        addresses = ClusterAddresses(client) if recorded else UnrecordedAddresses(client, networks)
        return {"lifecycle": ServiceLifecycle(client, addresses, node_ports, families)}

    registry.amend(GroupResource("", "services"), lifecycle)
    return node_ports
