"""Gauges of allocated and free addresses and ports, counted at each scrape.

Upstream: ``pkg/registry/core/service/ipallocator/metrics.go`` and ``portallocator/metrics.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from kapi.machinery.meters import metric_family
from kapi.registry.allocators.addresses import GROUP, networks_of
from kapi.registry.allocators.ports import NodePorts
from kapi.resources.core.services.allocation import usable_range
from kapi.resources.shared.addresses import parse
from kapi.runtime.interface import Client
from kapi.watchcache.cache import Cache

_ADDRESSES, _PORTS = "kube_apiserver_clusterip_allocator_", "kube_apiserver_nodeport_allocator_"


def usage(client: Client, addresses: Cache, ports: NodePorts) -> Callable[[], Iterator[Metric]]:
    """A function that makes the metric families.  ``addresses`` is the cache of IPAddresses; only names are read."""
    ranges = client.resource(GROUP, "servicecidrs")

    def make() -> Iterator[Metric]:
        taken = metric_family("kube_apiserver_clusterip_allocator_allocated_ips")
        free = metric_family("kube_apiserver_clusterip_allocator_available_ips")
        networks = {network for service_cidr in ranges.lister.list() for network in networks_of(service_cidr)}
        held = [address for one in addresses.list()[0] if (address := parse(one.name)) is not None]
        for network in sorted(networks, key=str):
            first, last = usable_range(network)
            count = sum(address.version == network.version and first <= int(address) <= last for address in held)
            taken.add_metric([str(network)], count)
            free.add_metric([str(network)], last - first + 1 - count)
        yield taken
        yield free
        reserved = ports.count()
        yield metric_family("kube_apiserver_nodeport_allocator_allocated_ports", value=reserved)
        yield metric_family(
            "kube_apiserver_nodeport_allocator_available_ports", value=ports.high - ports.low + 1 - reserved
        )

    return make
