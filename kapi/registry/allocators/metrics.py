"""Metrics of allocations of addresses and ports.

Upstream: ``pkg/registry/core/service/ipallocator/metrics.go`` and ``portallocator/metrics.go``.
"""

from __future__ import annotations

from kapi.machinery.meters import DEFAULT_BOUNDS, Counter, Histogram

STATIC, DYNAMIC = "static", "dynamic"  # scopes: a given address or port, or any free one
_ADDRESSES, _PORTS = "kube_apiserver_clusterip_allocator_", "kube_apiserver_nodeport_allocator_"

ADDRESSES_ALLOCATED = Counter(
    _ADDRESSES + "allocation_total", "[ALPHA] Number of Cluster IPs allocations", ("cidr", "scope")
)
ADDRESS_ERRORS = Counter(
    _ADDRESSES + "allocation_errors_total", "[ALPHA] Number of errors trying to allocate Cluster IPs", ("cidr", "scope")
)
ADDRESS_SECONDS = Histogram(
    _ADDRESSES + "allocation_duration_seconds",
    "[ALPHA] Duration in seconds to allocate a Cluster IP by ServiceCIDR",
    ("cidr",),
    DEFAULT_BOUNDS,
)
PORTS_ALLOCATED = Counter(_PORTS + "allocation_total", "[ALPHA] Number of NodePort allocations", ("scope",))
PORT_ERRORS = Counter(
    _PORTS + "allocation_errors_total", "[ALPHA] Number of errors trying to allocate NodePort", ("scope",)
)
COLLECTORS = (ADDRESSES_ALLOCATED, ADDRESS_ERRORS, ADDRESS_SECONDS, PORTS_ALLOCATED, PORT_ERRORS)
