"""The lifecycle of Services: addresses and ports are allocated before a write, and kept or released after it.

Upstream: ``pkg/registry/core/service/storage``: beginCreate, beginUpdate, afterDelete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from twisted.logger import Logger

from kapi.client.interface import Client
from kapi.machinery import status, tree
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.gvk import GroupKind
from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import ClusterAddresses
from kapi.registry.allocators.errors import AllocationError, Full
from kapi.registry.allocators.ports import NodePorts, PortOperation
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
    gives_up_node_ports,
    owned_addresses,
    owned_node_ports,
    plan_addresses,
    requested_port,
    write_addresses,
)
from kapi.resources.definition import StrategyContext
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
        """The Service is deleted, and the answer says so whatever happens here."""
        metadata = obj["metadata"]
        try:
            await self._endpoints.delete(metadata["name"], metadata["namespace"])
        except status.NotFound:
            pass
        except (status.StatusError, StoreError) as error:
            log.error("the endpoints of a deleted Service stay: {error}", error=str(error))
        await self._give_back(owned_addresses(obj).values(), owned_node_ports(obj))

    async def _give_back(self, addresses: Iterable[str], ports: Iterable[int]) -> None:
        """After a write, whose answer this does not change: what stays because of an error is found by the repair loop."""
        try:
            for ip in addresses:
                await self._addresses.give_back(ip)
            for port in ports:
                await self._ports.give_back(port)
        except (status.StatusError, StoreError) as error:
            log.error("addresses or ports of a Service stay taken: {error}", error=str(error))

    async def _begin(self, obj: Object, old: Object | None, ctx: StrategyContext) -> Finish:
        name = obj["metadata"].get("name", "")
        errors = families.decide_families(obj, old, self._configured)
        if errors:
            raise _refuse(name, errors)
        plan = plan_addresses(obj, old)
        taken: dict[str, str] = {}
        operation = PortOperation(self._ports, f"{ctx.namespace}/{name}", ctx.dry_run)

        async def finish(committed: bool) -> None:
            if not ctx.dry_run:
                await self._give_back((plan.give_back if committed else taken).values(), operation.ended(committed))

        try:
            await self._take_addresses(obj, plan, taken, ctx)
            await self._take_ports(obj, old, operation)
        except StoreError as error:  # also when it is not known whether a port was taken: the Service was not written
            await finish(False)
            raise status.service_unavailable(f"the store is not available: {error}", retry_after=1) from error
        except BaseException:
            await finish(False)
            raise
        return finish

    async def _take_addresses(
        self, obj: Object, plan: AddressPlan, taken: dict[str, str], ctx: StrategyContext
    ) -> None:
        name, path = obj["metadata"].get("name", ""), _SPEC.child("clusterIPs")
        for family, ip in plan.take.items():
            # what the Service shows while it is being filled: a gap where an address is still to come
            shown = [*cluster_ips(obj), *[""] * (len(plan.take) - len(cluster_ips(obj)))]
            try:
                if ip:
                    await self._addresses.take(ip, family, ctx.namespace, name, dry_run=ctx.dry_run)
                    taken[family] = ip
                else:
                    found = await self._addresses.take_any(family, ctx.namespace, name, dry_run=ctx.dry_run)
                    taken[family] = found
            except Full as error:
                text = f'failed to allocate a serviceIP for Service "{name}": {error}'
                raise status.internal(text) from error
            except AllocationError as error:
                what = f"failed to allocate IP {ip}: {error}" if ip else f"failed to allocate IP: {error}"
                raise _refuse(name, [invalid(path, shown, what)]) from error
        write_addresses(obj, taken)

    async def _take_ports(self, obj: Object, old: Object | None, operation: PortOperation) -> None:
        if old is not None and gives_up_node_ports(obj, old):
            for port in node_ports(old):
                operation.give_up(port)
        if may_have_node_ports(obj):
            if old is None:
                await self._new_ports(obj, operation)
            else:
                await self._changed_ports(obj, old, operation)
        had, needs = old is not None and needs_health_check(old), needs_health_check(obj)
        if needs and not had:
            await self._health_check_port(obj, operation)
        elif had and not needs and old is not None:
            operation.give_up(old["spec"].get("healthCheckNodePort", 0))

    async def _new_ports(self, obj: Object, operation: PortOperation) -> None:
        """Ports with the same number (TCP and UDP) share one node port."""
        shared: dict[int, int] = {}
        for i, port in enumerate(ports(obj)):
            given, number = port.get("nodePort") or 0, port.get("port", 0)
            if not given and not allocates_node_ports(obj):
                continue
            if number not in shared:
                wanted = requested_port(obj, number)
                if wanted:
                    await self._take_port(obj, i, wanted, operation)
                else:
                    wanted = await self._any_port(operation)
                port["nodePort"] = shared[number] = wanted
            elif not given:
                port["nodePort"] = shared[number]
            elif given != shared[number]:
                await self._take_port(obj, i, given, operation)

    async def _changed_ports(self, obj: Object, old: Object, operation: PortOperation) -> None:
        kept = node_ports(old)
        taken: set[int] = set()
        seen: set[tuple[str, int]] = set()
        for i, port in enumerate(ports(obj)):
            given = port.get("nodePort") or 0
            if not given and not allocates_node_ports(obj):
                continue
            if not given:
                port["nodePort"] = given = await self._any_port(operation)
            elif given not in kept and given not in taken:
                await self._take_port(obj, i, given, operation)
                taken.add(given)
            mark = (port.get("protocol", ""), given)
            if mark in seen:
                raise status.generic(f"duplicate nodePort: {{{mark[0]} {mark[1]}}}")
            seen.add(mark)
        for number in kept:
            if number not in node_ports(obj):
                operation.give_up(number)

    async def _take_port(self, obj: Object, i: int, port: int, operation: PortOperation) -> None:
        try:
            await operation.take(port)
        except AllocationError as error:
            path = _SPEC.child("ports").index(i).child("nodePort")
            raise _refuse(obj["metadata"].get("name", ""), [invalid(path, port, str(error))]) from error

    async def _any_port(self, operation: PortOperation) -> int:
        try:
            return await operation.take_any()
        except Full as error:
            raise status.internal(f"failed to allocate a nodePort: {error}") from error

    async def _health_check_port(self, obj: Object, operation: PortOperation) -> None:
        spec = spec_of(obj)
        wanted = spec.get("healthCheckNodePort") or 0
        try:
            if wanted:
                await operation.take(wanted)
            else:
                spec["healthCheckNodePort"] = await operation.take_any()
        except AllocationError as error:
            what = f"requested HealthCheck NodePort {wanted}" if wanted else f"a HealthCheck NodePort {wanted}"
            raise status.internal(f"failed to allocate {what}: {error}") from error
