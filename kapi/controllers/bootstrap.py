"""The objects that every cluster has from the start: namespaces, the kubernetes Service, its range, priority classes.

Created at the start and corrected periodically.  Part of the API server: ``--controllers`` does not switch it off.
Upstream: ``pkg/controlplane/controller/{systemnamespaces,kubernetesservice}``, the scheduling bootstrap hook.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.defaultservicecidr import DefaultServiceCIDR, service_cidr
from kapi.controllers.serverleases import ServerLeases
from kapi.machinery import status, tree
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.resources.scheduling.priorityclasses import SYSTEM_CLASSES
from kapi.resources.shared.addresses import parse_network
from kapi.runtime.interface import Client, ResourceClient
from kapi.runtime.persistent import Persistent, Refusals, release

NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")
SERVICE = "kubernetes"
NAMESPACE = "default"
_PARENT = {"resource": "services", "namespace": NAMESPACE, "name": SERVICE}
_INTERVAL_SECONDS = 10.0
_WRITE_SECONDS = 5.0  # time between the writes of an address and of its Service


def namespaces() -> list[Object]:
    return [{"metadata": {"name": name}} for name in NAMESPACES]


def first_address(cidr: str) -> str:
    """The cluster IP of the kubernetes Service."""
    parsed = parse_network(cidr)
    if parsed is None:
        raise ValueError(f"not a CIDR: {cidr}")
    number = int(parsed[1].network_address) + 1
    return str(ipaddress.IPv4Address(number) if parsed[1].version == 4 else ipaddress.IPv6Address(number))


def kubernetes_service(cluster_ip: str, port: int, node_port: int = 0) -> Object:
    """``port`` is the server's port; ``node_port`` 0 means ClusterIP only."""
    https: Object = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}
    if node_port:
        https["nodePort"] = node_port
    return {
        "metadata": {"name": SERVICE, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "ports": [https],
            "clusterIP": cluster_ip,
            "sessionAffinity": "None",
            "type": "NodePort" if node_port else "ClusterIP",
            "ipFamilyPolicy": "SingleStack",
        },
    }


def served_addresses(own: str, alive: Sequence[str]) -> list[str]:
    """The addresses to publish: this server's, and the addresses of living servers of the same family."""
    family = ipaddress.ip_address(own).version
    return sorted({own, *(address for address in alive if ipaddress.ip_address(address).version == family)})


def kubernetes_endpoints(addresses: Sequence[str], port: int) -> Object:
    shown = [{"ip": address} for address in addresses]
    return {
        "metadata": {"name": SERVICE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": shown, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
    }


def kubernetes_endpoint_slice(addresses: Sequence[str], port: int) -> Object:
    return {
        "metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": f"IPv{ipaddress.ip_address(addresses[0]).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


def corrected_endpoints(existing: Object, desired: Object) -> Object | None:
    """The existing Endpoints with the desired subsets and labels beside others; None when it has them already."""
    labels = existing["metadata"].get("labels") or {}
    wanted = {**labels, **desired["metadata"]["labels"]}
    if existing.get("subsets") == desired["subsets"] and labels == wanted:
        return None
    return {**existing, "metadata": {**existing["metadata"], "labels": wanted}, "subsets": desired["subsets"]}


def corrected_slice(existing: Object, desired: Object) -> Object | None:
    """The desired slice, which has no other labels and annotations; None when the existing one is as desired."""
    metadata, wanted = existing["metadata"], desired["metadata"]
    if all(existing.get(part) == desired[part] for part in ("endpoints", "ports")):
        if metadata.get("labels") == wanted["labels"]:
            return None
    return {**desired, "metadata": {**wanted, "resourceVersion": metadata["resourceVersion"]}}


class BootstrapController:
    """``client`` writes as ``kube-apiserver``; ``ranges_client`` writes the ready condition of ranges under another name.

    Clients connect to ``address`` and ``port``, if this server ``publishes`` them.
    """

    name = "bootstrap"

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
        self._ranges = list(ranges)
        self._has_ranges = client.has("networking.k8s.io", "servicecidrs")
        if self._has_ranges:
            self._default_range = DefaultServiceCIDR(client, ranges_client or client, ranges, now)
        self._address = address
        self._port = port
        self._node_port = node_port
        self._now = now
        self._leases = leases  # None: this server is alone
        self._publishes = publishes
        self._reactor = reactor
        self._work = Persistent(self.name, self.run_once, reactor, _INTERVAL_SECONDS)

    async def run_once(self) -> None:
        """Creates and corrects all objects, in the order of their dependencies.  Raises StatusError when an object is refused."""
        refusals = Refusals()
        if self._client.has("", "namespaces"):
            for namespace in namespaces():
                with refusals:
                    await self._ensure(self._client.resource("", "namespaces"), namespace)
        if self._has_ranges:
            with refusals:
                ranges = self._client.resource("networking.k8s.io", "servicecidrs")
                await self._default_range.reconcile(await self._ensure(ranges, service_cidr(self._ranges)))
        if self._client.has("scheduling.k8s.io", "priorityclasses"):
            for known in SYSTEM_CLASSES:
                with refusals:
                    await self._ensure(self._client.resource("scheduling.k8s.io", "priorityclasses"), dict(known))
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
        """Removes this server from the published addresses; other servers stay."""
        self._work.stop()
        if self._leases is not None:
            await release("bootstrap", self._leave(self._leases), self._reactor)

    async def _leave(self, leases: ServerLeases) -> None:
        await leases.end(self._address)
        others = leases.addresses(others=True)
        if others:
            await self._publish(others)

    async def _ensure(self, resource: ResourceClient, desired: Object, namespace: str = "") -> Object:
        """The object, which is created when it is missing."""
        name = desired["metadata"]["name"]
        found = resource.lister.get(namespace, name)
        if found is not None:
            return found
        try:
            return await resource.create(desired, namespace)
        except status.AlreadyExists:
            return await resource.get(name, namespace)

    async def _kubernetes_service(self) -> None:
        """Creates the Service when it is missing; an existing Service stays unchanged, since an operator may have changed it."""
        cluster_ip = first_address(self._ranges[0])
        desired = kubernetes_service(cluster_ip, self._port, self._node_port)
        services = self._client.resource("", "services")
        if services.lister.get(NAMESPACE, SERVICE) is None:
            await self._free_address(cluster_ip)
        await self._ensure(services, desired, NAMESPACE)

    async def _free_address(self, cluster_ip: str) -> None:
        """Frees the Service's address if it is allocated without the Service, because a server has ended between its two writes.

        The repair of addresses would wait for a minute.  A young address is kept, since a server may be about to write the
        Service.
        """
        if not self._client.has("networking.k8s.io", "ipaddresses"):
            return
        addresses = self._client.resource("networking.k8s.io", "ipaddresses")
        left = addresses.lister.get("", cluster_ip)
        if left is None or (left.get("spec") or {}).get("parentRef") != _PARENT:
            return
        if seconds_of(self._now()) - seconds_of(left["metadata"]["creationTimestamp"]) < _WRITE_SECONDS:
            return
        try:
            await addresses.delete(cluster_ip)
        except status.NotFound:
            pass

    async def _addresses(self) -> None:
        if not self._publishes or ipaddress.ip_address(self._address).is_loopback:
            return  # a machine without network: endpoints may not have loopback addresses
        alive: list[str] = []
        if self._leases is not None:
            await self._leases.renew(self._address)
            alive = self._leases.addresses()
        await self._publish(served_addresses(self._address, alive))

    async def _publish(self, addresses: list[str]) -> None:
        if self._client.has("", "endpoints"):
            endpoints = kubernetes_endpoints(addresses, self._port)
            await self._correct(self._client.resource("", "endpoints"), endpoints, corrected_endpoints)
        if self._client.has("discovery.k8s.io", "endpointslices"):
            endpoint_slice = kubernetes_endpoint_slice(addresses, self._port)
            slices = self._client.resource("discovery.k8s.io", "endpointslices")
            existing = slices.lister.get(NAMESPACE, SERVICE)
            if existing is not None and existing.get("addressType") != endpoint_slice["addressType"]:
                await slices.delete(SERVICE, NAMESPACE)  # the address family cannot be changed
            await self._correct(slices, endpoint_slice, corrected_slice)

    async def _correct(
        self, resource: ResourceClient, desired: Object, corrected: Callable[[Object, Object], Object | None]
    ) -> None:
        existing = await self._ensure(resource, desired, NAMESPACE)
        update = corrected(tree.copy(existing), desired)
        if update is not None:
            await resource.update(update, NAMESPACE)
