"""Compares Services with their addresses and ports at the start and every minute.

Part of the API server: ``--controllers`` does not switch it off.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.controllers.events import EventRecorder, Occurrence
from kapi.controllers.servicerepair import reconcile
from kapi.machinery import status
from kapi.machinery.meters import Counter
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import GROUP, ip_address_of, networks_of
from kapi.registry.allocators.errors import AllocationError, NotInRange
from kapi.registry.allocators.ports import NodePorts
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue
from kapi.store.errors import StoreError

#: upstream: ``pkg/registry/core/service/portallocator/controller/metrics.go``
FAILURES = Counter(
    "apiserver_nodeport_repair_reconcile_errors_total",
    "[ALPHA] Number of reconciliation failures on the nodeport repair reconcile loop",
)
_INTERVAL_SECONDS = 60.0
_FIRST_RANGE_SECONDS = 1.0  # at the first start the ranges are still being made
_ALL = "services"
_ADDRESSES, _PORTS = "ipallocator-repair-controller", "portallocator-repair-controller"


class ServiceRepairController:
    """``node_ports`` is what ``kapi.registry.allocators.install`` returned."""

    name = "start-service-ip-repair-controllers"
    log = Logger()

    def __init__(self, client: Client, node_ports: NodePorts, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._services = client.resource("", "services")
        self._addresses = client.resource(GROUP, "ipaddresses")
        self._ranges = client.resource(GROUP, "servicecidrs")
        self._records_addresses = client.has(GROUP, "ipaddresses")
        self._ports = node_ports
        self._events = EventRecorder(client, now)
        self._now = now
        self._unowned: dict[int, float] = {}
        self._queue = WorkQueue(reactor, self.name, self._handle, workers=1)

    async def start(self) -> None:
        self._queue.add(_ALL)

    def stop(self) -> None:
        self._queue.stop()

    async def _handle(self, key: str) -> float | None:
        await self.run_once()
        waits = self._records_addresses and not self._ranges.lister.list()
        return _FIRST_RANGE_SECONDS if waits else _INTERVAL_SECONDS

    async def run_once(self) -> None:
        now = seconds_of(self._now())
        addresses = (
            await self._addresses.list()
        )  # before the services: an address allocated meanwhile is too young to be released
        reserved = self._ports.reserved()
        services = await self._services.list()
        ranges = await self._ranges.list()
        networks = [network for service_cidr in ranges for network in networks_of(service_cidr)]
        if self._records_addresses:
            plan = reconcile.plan_addresses(services, addresses, networks, now)
            for news in plan.news:
                await self._events.warn(_ADDRESSES, news)
            for release in plan.release:
                if await self._delete(release.address):
                    await self._events.warn(_ADDRESSES, release.news)
            for claim in plan.claim + plan.replace:
                await self._claim(claim)
        try:
            await self._repair_ports(reconcile.ports_in_use(services), set(reserved), services, now)
        except (status.StatusError, StoreError):
            FAILURES.add()
            raise

    async def _delete(self, address: Object) -> bool:
        """Whether the object, and not another of its name, was deleted."""
        name, uid = address["metadata"]["name"], address["metadata"]["uid"]
        try:
            await self._addresses.delete(name, options={"preconditions": {"uid": uid}})
        except (status.NotFound, status.Conflict):
            return False
        self.log.warn("IPAddress {name} does not belong to its Service: cleaning up", name=name)
        return True

    async def _claim(self, claim: reconcile.Claim) -> None:
        if claim.stale is not None and not await self._delete(claim.stale):
            return
        namespace, name = claim.service["metadata"]["namespace"], claim.service["metadata"]["name"]
        try:
            await self._addresses.create(ip_address_of(claim.ip, claim.family, namespace, name))
        except status.AlreadyExists:
            return  # a Service that was made meanwhile
        self.log.warn(
            "cluster IP {ip} of {namespace}/{name} was not allocated: repaired",
            ip=claim.ip,
            namespace=namespace,
            name=name,
        )
        if claim.news is not None:
            await self._events.warn(_ADDRESSES, claim.news)

    async def _repair_ports(self, used: dict[int, str], reserved: set[int], services: list[Object], now: float) -> None:
        missing, leaked, self._unowned = reconcile.plan_ports(used, reserved, self._unowned, now)
        for port, owner in missing.items():
            try:
                await self._ports.allocate(port, owner)
            except NotInRange:
                ports = f"{self._ports.low}-{self._ports.high}"
                note = f"Port {port} is not within the port range {ports}; please recreate service"
                await self._record_port_event(services, owner, "PortOutOfRange", note)
                continue
            except AllocationError:
                continue  # taken just now
            await self._record_port_event(
                services, owner, "PortNotAllocated", f"Port {port} is not allocated; repairing"
            )
            self.log.warn("node port {port} of {owner} was not reserved: repaired", port=port, owner=owner)
        for port in leaked:
            self.log.warn("node port {port} belongs to no Service: given back", port=port)
            await self._ports.release(port)

    async def _record_port_event(self, services: list[Object], owner: str, reason: str, note: str) -> None:
        namespace, _, name = owner.partition("/")
        for service in services:
            if (service["metadata"]["namespace"], service["metadata"]["name"]) == (namespace, name):
                await self._events.warn(_PORTS, Occurrence(service, reason, "PortAllocation", note))
