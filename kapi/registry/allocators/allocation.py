"""Common parts of the allocators of addresses and of ports: the source of randomness, errors, metrics.

Upstream: the ``metrics.go`` of ``pkg/registry/core/service/ipallocator`` and ``portallocator``; their ErrAllocated, ErrFull and
ErrNotInRange.
"""

from __future__ import annotations

import random

from kapi.machinery.meters import DEFAULT_BOUNDS, counter, histogram

RANDOM = random.SystemRandom()
STATIC, DYNAMIC = "static", "dynamic"  # scopes: a given address or port, or any free one

ADDRESSES_ALLOCATED = counter("kube_apiserver_clusterip_allocator_allocation_total")
ADDRESS_ERRORS = counter("kube_apiserver_clusterip_allocator_allocation_errors_total")
ADDRESS_SECONDS = histogram("kube_apiserver_clusterip_allocator_allocation_duration_seconds", DEFAULT_BOUNDS)
PORTS_ALLOCATED = counter("kube_apiserver_nodeport_allocator_allocation_total")
PORT_ERRORS = counter("kube_apiserver_nodeport_allocator_allocation_errors_total")
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
