"""Looks at Services, their addresses and their ports at the start and every minute.

Part of the API server: ``--controllers`` does not switch it off.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.client.interface import Client
from kapi.controllers.queue import WorkQueue
from kapi.controllers.servicerepair import reconcile
from kapi.machinery import status
from kapi.machinery.time import seconds_of
from kapi.registry.allocators.addresses import GROUP, ip_address_of
from kapi.registry.allocators.errors import AllocationError
from kapi.registry.allocators.ports import NodePorts

_SECONDS = 60.0
_ALL = "services"


class ServiceRepairController:
    """``node_ports`` is what ``kapi.registry.allocators.install`` returned."""

    name = "start-service-ip-repair-controllers"
    log = Logger()

    def __init__(self, client: Client, node_ports: NodePorts, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._services = client.resource("", "services")
        self._addresses = client.resource(GROUP, "ipaddresses")
        self._ports = node_ports
        self._now = now
        self._unowned: dict[int, float] = {}
        self._queue = WorkQueue(reactor, self.name, self._handle, workers=1)

    async def start(self) -> None:
        self._queue.add(_ALL)

    def stop(self) -> None:
        self._queue.stop()

    async def _handle(self, key: str) -> float | None:
        await self.run_once()
        return _SECONDS

    async def run_once(self) -> None:
        now = seconds_of(self._now())
        addresses = await self._addresses.list()  # before the services: what is taken meanwhile is young
        reserved = self._ports.reserved()
        services = await self._services.list()
        plan = reconcile.plan_addresses(services, addresses, now)
        for name in [claim[0] for claim in plan.replace] + plan.release:
            self.log.warn("IPAddress {name} does not belong to its Service: cleaning up", name=name)
            try:
                await self._addresses.delete(name)
            except status.NotFound:
                continue
        for ip, family, namespace, name in plan.claim + plan.replace:
            self.log.warn(
                "cluster IP {ip} of {namespace}/{name} is not allocated: repairing",
                ip=ip,
                namespace=namespace,
                name=name,
            )
            try:
                await self._addresses.create(ip_address_of(ip, family, namespace, name))
            except status.AlreadyExists:
                continue
        await self._repair_ports(reconcile.ports_in_use(services), set(reserved), now)

    async def _repair_ports(self, used: dict[int, str], reserved: set[int], now: float) -> None:
        missing, leaked, self._unowned = reconcile.plan_ports(used, reserved, self._unowned, now)
        for port, owner in missing.items():
            try:
                await self._ports.take(port, owner)
            except AllocationError:
                continue  # outside of the range, or taken just now
            self.log.warn("node port {port} of {owner} was not reserved: repaired", port=port, owner=owner)
        for port in leaked:
            self.log.warn("node port {port} belongs to no Service: given back", port=port)
            await self._ports.give_back(port)
