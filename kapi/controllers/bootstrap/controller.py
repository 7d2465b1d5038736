"""Creates the server's own objects at the start and corrects them periodically.

Upstream: ``pkg/controlplane/controller/{systemnamespaces,kubernetesservice,defaultservicecidr}``, the scheduling
bootstrap hook.  It is part of the API server: ``--controllers`` does not switch it off.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.controllers.bootstrap import reconcile
from kapi.controllers.bootstrap.leases import ServerLeases
from kapi.machinery import status, tree
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client, ResourceClient
from kapi.runtime.persistent import Persistent, Refusals
from kapi.store.errors import StoreError

_INTERVAL_SECONDS = 10.0


class BootstrapController:
    """``client`` writes as ``kube-apiserver``; ``ranges_client`` writes the ready condition of ranges under another name.

    Clients connect to ``address`` and ``port``, if this server ``publishes`` them.
    """

    name = "bootstrap"
    log = Logger()

    def __init__(
        self,
        client: Client,
        reactor: IReactorTime,
        *,
        ranges: Sequence[str],
        address: str,
        port: int,
        node_port: int = 0,
        now: Callable[[], str],
        leases: ServerLeases | None = None,
        ranges_client: Client | None = None,
        publishes: bool = True,
    ) -> None:
        self._client = client
        self._statuses = (ranges_client or client).resource("networking.k8s.io", "servicecidrs")
        self._ranges = list(ranges)
        self._address = address
        self._port = port
        self._node_port = node_port
        self._now = now
        self._leases = leases  # None: this server is alone
        self._publishes = publishes
        self._work = Persistent(self.name, self.run_once, reactor, _INTERVAL_SECONDS)

    async def run_once(self) -> None:
        """Creates and corrects all objects, in the order of their dependencies.  Raises StatusError when one is refused."""
        refusals = Refusals()
        if self._client.has("", "namespaces"):
            for namespace in reconcile.namespaces():
                with refusals:
                    await self._ensure(self._client.resource("", "namespaces"), namespace)
        if self._client.has("networking.k8s.io", "servicecidrs"):
            with refusals:
                await self._service_cidr()
        if self._client.has("scheduling.k8s.io", "priorityclasses"):
            for priority_class in reconcile.priority_classes():
                with refusals:
                    await self._ensure(self._client.resource("scheduling.k8s.io", "priorityclasses"), priority_class)
        if self._client.has("", "namespaces") and self._client.has("", "services"):
            with refusals:
                await self._kubernetes_service()
            with refusals:
                await self._addresses()
        refusals.check()

    async def start(self) -> None:
        """Fires when the objects exist, or were refused; a health check may wait for it."""
        await self._work.start()

    async def stop(self) -> None:
        """Other servers stay published, this one does not."""
        self._work.stop()
        if self._leases is None:
            return
        try:
            await self._leases.end(self._address)
            others = self._leases.addresses(others=True)
            if others:
                await self._publish(others)
        except (status.StatusError, StoreError) as error:
            self.log.warn("bootstrap: the lease stays until it expires: {error}", error=error)

    async def _ensure(self, resource: ResourceClient, desired: Object, namespace: str = "") -> Object:
        """The existing object, created when it is missing."""
        name = desired["metadata"]["name"]
        found = resource.lister.get(namespace, name)
        if found is not None:
            return found
        try:
            return await resource.create(desired, namespace)
        except status.AlreadyExists:
            return await resource.get(name, namespace)

    async def _service_cidr(self) -> None:
        ranges = self._client.resource("networking.k8s.io", "servicecidrs")
        existing = await self._ensure(ranges, reconcile.service_cidr(self._ranges))
        ready = reconcile.ready_status(existing, self._ranges, self._now())
        if ready is not None:
            await self._statuses.apply(reconcile.SERVICE, ready, subresource="status")

    async def _kubernetes_service(self) -> None:
        cluster_ip = reconcile.first_address(self._ranges[0])
        desired = reconcile.kubernetes_service(cluster_ip, self._port, self._node_port)
        services = self._client.resource("", "services")
        existing = await self._ensure(services, desired, reconcile.NAMESPACE)
        corrected = reconcile.corrected_service(tree.copy(existing), desired)
        if corrected is not None:
            await services.update(corrected, reconcile.NAMESPACE)

    async def _addresses(self) -> None:
        if not self._publishes or ipaddress.ip_address(self._address).is_loopback:
            return  # a machine without network: endpoints may not name a loopback address
        alive: list[str] = []
        if self._leases is not None:
            await self._leases.renew(self._address)
            alive = self._leases.addresses()
        await self._publish(reconcile.served_addresses(self._address, alive))

    async def _publish(self, addresses: list[str]) -> None:
        if self._client.has("", "endpoints"):
            endpoints = reconcile.kubernetes_endpoints(addresses, self._port)
            await self._correct(self._client.resource("", "endpoints"), endpoints, "subsets")
        if self._client.has("discovery.k8s.io", "endpointslices"):
            endpoint_slice = reconcile.kubernetes_endpoint_slice(addresses, self._port)
            slices = self._client.resource("discovery.k8s.io", "endpointslices")
            existing = slices.lister.get(reconcile.NAMESPACE, reconcile.SERVICE)
            if existing is not None and existing.get("addressType") != endpoint_slice["addressType"]:
                await slices.delete(reconcile.SERVICE, reconcile.NAMESPACE)  # it cannot be changed
            await self._correct(slices, endpoint_slice, "endpoints", "ports")

    async def _correct(self, resource: ResourceClient, desired: Object, *parts: str) -> None:
        existing = await self._ensure(resource, desired, reconcile.NAMESPACE)
        corrected = reconcile.corrected(tree.copy(existing), desired, *parts)
        if corrected is not None:
            await resource.update(corrected, reconcile.NAMESPACE)
