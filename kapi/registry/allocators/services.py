"""The lifecycle of Services: addresses and ports are allocated before a write, and confirmed or released after it.

Upstream: ``pkg/registry/core/service/storage``: beginCreate, beginUpdate, afterDelete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from twisted.logger import Logger

from kapi.machinery import status, tree
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.gvk import GroupKind, GroupResource
from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import GROUP, ClusterAddresses, UnrecordedAddresses
from kapi.registry.allocators.allocation import AllocationError, RangeFull
from kapi.registry.allocators.ports import RESERVATIONS, NodePorts, PortOperation
from kapi.registry.registry import Registry
from kapi.resources.core.services import families
from kapi.resources.core.services.access import (
    allocates_node_ports,
    cluster_ips,
    may_have_node_ports,
    needs_health_check,
    node_ports,
    ports,
    spec_of,
)
from kapi.resources.core.services.allocation import (
    AddressPlan,
    owned_addresses,
    owned_node_ports,
    plan_addresses,
    releases_node_ports,
    requested_port,
    write_addresses,
)
from kapi.resources.definition import StrategyContext
from kapi.resources.shared.addresses import parse_network
from kapi.runtime.interface import Client
from kapi.store.errors import StoreError

log = Logger()
Finish = Callable[[bool], Awaitable[None]]
_KIND = GroupKind("", "Service")
_SPEC = Path("spec")


def _refuse(name: str, errors: Sequence[FieldError]) -> status.Invalid:
    return status.invalid(_KIND, name, errors)


class ServiceLifecycle:
    """``configured`` are the IP families of the cluster, the default one first."""

    def __init__(
        self, client: Client, addresses: ClusterAddresses, node_ports: NodePorts, configured: Sequence[str]
    ) -> None:
        self._endpoints = client.resource("", "endpoints")
        self._addresses = addresses
        self._ports = node_ports
        self._configured = tuple(configured)

    async def begin_create(self, obj: Object, ctx: StrategyContext) -> Finish | None:
        families.normalize_cluster_ips(obj, None)
        return await self._begin(obj, None, ctx)

    async def begin_update(self, obj: Object, old: Object, ctx: StrategyContext) -> Finish | None:
        if ctx.subresource:
            return None
        old = tree.copy(old)
        families.families_on_read(old, self._configured[0])
        families.keep_allocated(obj, old)
        families.normalize_cluster_ips(obj, old)
        return await self._begin(obj, old, ctx)

    async def after_delete(self, obj: Object, ctx: StrategyContext) -> None:
        """Deletes the Endpoints and releases addresses and ports.  Errors are only logged: the Service is deleted."""
        metadata = obj["metadata"]
        try:
            await self._endpoints.delete(metadata["name"], metadata["namespace"])
        except status.NotFound:
            pass
        except (status.StatusError, StoreError) as error:
            log.error("the endpoints of a deleted Service stay: {error}", error=str(error))
        await self._release(owned_addresses(obj).values(), owned_node_ports(obj))

    async def _release(self, addresses: Iterable[str], ports: Iterable[int]) -> None:
        """Called after a write.  Errors are only logged; the repair loop releases what is left."""
        try:
            for ip in addresses:
                await self._addresses.release(ip)
            for port in ports:
                await self._ports.release(port)
        except (status.StatusError, StoreError) as error:
            log.error("addresses or ports of a Service stay allocated: {error}", error=str(error))

    async def _begin(self, obj: Object, old: Object | None, ctx: StrategyContext) -> Finish:
        name = obj["metadata"].get("name", "")
        errors = families.decide_families(obj, old, self._configured, ctx)
        if errors:
            raise _refuse(name, errors)
        plan = plan_addresses(obj, old)
        allocated: dict[str, str] = {}
        operation = PortOperation(self._ports, f"{ctx.namespace}/{name}", ctx.dry_run)

        async def finish(committed: bool) -> None:
            if not ctx.dry_run:
                await self._release(
                    (plan.release if committed else allocated).values(), operation.to_release(committed)
                )

        try:
            await self._allocate_addresses(obj, plan, allocated, ctx)
            await self._allocate_ports(obj, old, operation)
        except (
            StoreError
        ) as error:  # also when it is not known whether a port was allocated: the Service was not written
            await finish(False)
            raise status.service_unavailable(f"the store is not available: {error}", retry_after=1) from error
        except BaseException:
            await finish(False)
            raise
        return finish

    async def _allocate_addresses(
        self, obj: Object, plan: AddressPlan, allocated: dict[str, str], ctx: StrategyContext
    ) -> None:
        name, path = obj["metadata"].get("name", ""), _SPEC.child("clusterIPs")
        for family, ip in plan.allocate.items():
            # upstream's errors show the unfinished Service, with "" for addresses still to be allocated
            shown = [*cluster_ips(obj), *[""] * (len(plan.allocate) - len(cluster_ips(obj)))]
            try:
                if ip:
                    await self._addresses.allocate(ip, family, ctx.namespace, name, dry_run=ctx.dry_run)
                    allocated[family] = ip
                else:
                    found = await self._addresses.allocate_next(family, ctx.namespace, name, dry_run=ctx.dry_run)
                    allocated[family] = found
            except RangeFull as error:
                raise status.internal(f'failed to allocate a serviceIP for Service "{name}": {error}') from error
            except AllocationError as error:
                what = f"failed to allocate IP {ip}: {error}" if ip else f"failed to allocate IP: {error}"
                raise _refuse(name, [invalid(path, shown, what)]) from error
        write_addresses(obj, allocated)

    async def _allocate_ports(self, obj: Object, old: Object | None, operation: PortOperation) -> None:
        if old is not None and releases_node_ports(obj, old):
            for port in node_ports(old):
                operation.release_later(port)
        if may_have_node_ports(obj):
            if old is None:
                await self._new_ports(obj, operation)
            else:
                await self._changed_ports(obj, old, operation)
        had, needs = old is not None and needs_health_check(old), needs_health_check(obj)
        if needs and not had:
            await self._health_check_port(obj, operation)
        elif had and not needs and old is not None:
            operation.release_later(old["spec"].get("healthCheckNodePort", 0))

    async def _new_ports(self, obj: Object, operation: PortOperation) -> None:
        """Ports with the same number (TCP and UDP) share one node port."""
        shared: dict[int, int] = {}
        for i, port in enumerate(ports(obj)):
            given, number = port.get("nodePort") or 0, port.get("port", 0)
            if not given and not allocates_node_ports(obj):
                continue
            if number not in shared:
                requested = requested_port(obj, number)
                if requested:
                    await self._allocate_port(obj, i, requested, operation)
                else:
                    requested = await self._allocate_next_port(operation)
                port["nodePort"] = shared[number] = requested
            elif not given:
                port["nodePort"] = shared[number]
            elif given != shared[number]:
                await self._allocate_port(obj, i, given, operation)

    async def _changed_ports(self, obj: Object, old: Object, operation: PortOperation) -> None:
        kept = node_ports(old)
        allocated: set[int] = set()
        seen: set[tuple[str, int]] = set()
        for i, port in enumerate(ports(obj)):
            given = port.get("nodePort") or 0
            if not given and not allocates_node_ports(obj):
                continue
            if not given:
                port["nodePort"] = given = await self._allocate_next_port(operation)
            elif given not in kept and given not in allocated:
                await self._allocate_port(obj, i, given, operation)
                allocated.add(given)
            mark = (port.get("protocol", ""), given)
            if mark in seen:
                raise status.generic(f"duplicate nodePort: {{{mark[0]} {mark[1]}}}")
            seen.add(mark)
        for number in kept:
            if number not in node_ports(obj):
                operation.release_later(number)

    async def _allocate_port(self, obj: Object, i: int, port: int, operation: PortOperation) -> None:
        try:
            await operation.allocate(port)
        except AllocationError as error:
            path = _SPEC.child("ports").index(i).child("nodePort")
            raise _refuse(obj["metadata"].get("name", ""), [invalid(path, port, str(error))]) from error

    async def _allocate_next_port(self, operation: PortOperation) -> int:
        try:
            return await operation.allocate_next()
        except RangeFull as error:
            raise status.internal(f"failed to allocate a nodePort: {error}") from error

    async def _health_check_port(self, obj: Object, operation: PortOperation) -> None:
        spec = spec_of(obj)
        requested = spec.get("healthCheckNodePort") or 0
        try:
            if requested:
                await operation.allocate(requested)
            else:
                spec["healthCheckNodePort"] = await operation.allocate_next()
        except AllocationError as error:
            what = f"requested HealthCheck NodePort {requested}" if requested else f"a HealthCheck NodePort {requested}"
            raise status.internal(f"failed to allocate {what}: {error}") from error


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
