"""Common parts of the allocators of addresses and of ports: the source of randomness, errors, metrics.

Upstream: the ``metrics.go`` of ``pkg/registry/core/service/ipallocator`` and ``portallocator``; their ErrAllocated, ErrFull and
ErrNotInRange.
"""

from __future__ import annotations

import random

from kapi.machinery.meters import DEFAULT_BOUNDS, Counter, Histogram

RANDOM = random.SystemRandom()
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


class AllocationError(Exception):
    """The base of all errors of allocators."""


class AlreadyAllocated(AllocationError):
    """The address or port is in use."""


class RangeFull(AllocationError):
    """No address or port is free."""

    def __init__(self) -> None:
        super().__init__("range is full")


class NotInRange(AllocationError):
    """The address or port is outside of the allocator's range."""
