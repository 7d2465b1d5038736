"""Keeps the condition of ServiceCIDRs, and ranges whose addresses are in use (upstream: ``pkg/controller/servicecidrs``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status
from kapi.machinery.netip import Network
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import GROUP, MANAGED_BY_LABEL, MANAGER, networks_of
from kapi.resources.core.services.allocation import holds
from kapi.resources.shared.addresses import parse
from kapi.runtime.interface import Client

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_READY = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"}
_TERMINATING = {
    "type": "Ready",
    "status": "False",
    "reason": "Terminating",
    "message": "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
}
#: until then every server has seen the deletion and allocates no more addresses
_GRACE_SECONDS = 10.0


def may_be_deleted(service_cidr: Object, others: Iterable[Object], addresses: Iterable[Object]) -> bool:
    """Whether every address in use is in one of the other ranges."""
    left = [network for other in others for network in networks_of(other)]
    own = networks_of(service_cidr)
    if all(any(_contains(network, mine) for network in left) for mine in own):
        return True
    for address in addresses:
        if (address["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) != MANAGER:
            continue
        ip = parse(address["metadata"]["name"])
        if ip is None:
            continue
        if any(holds(network, ip) for network in own) and not any(holds(network, ip) for network in left):
            return False
    return True


def _contains(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and outer.prefixlen <= inner.prefixlen and inner.network_address in outer


def condition_patch(service_cidr: Object, now: str, *, terminating: bool) -> Object | None:
    """The status to apply; None when the condition is up to date."""
    desired = _TERMINATING if terminating else _READY
    since = now
    for condition in (service_cidr.get("status") or {}).get("conditions") or []:
        if condition.get("type") != "Ready":
            continue
        if all((condition.get(name) or "") == value for name, value in desired.items()):
            return None
        if condition.get("status") == desired["status"]:
            since = condition.get("lastTransitionTime", now)
    return {"status": {"conditions": [{**desired, "lastTransitionTime": since}]}}


def with_finalizer(service_cidr: Object, present: bool) -> list[str] | None:
    """The finalizers with or without this controller's; None when nothing changes."""
    finalizers = service_cidr["metadata"].get("finalizers") or []
    if (FINALIZER in finalizers) == present:
        return None
    return [*finalizers, FINALIZER] if present else [name for name in finalizers if name != FINALIZER]


class ServiceCIDRController(QueueController[str]):
    name = "service-cidr-controller"
    workers = 1

    def __init__(self, client: Client, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._ranges = client.resource(GROUP, "servicecidrs")
        self._addresses = client.resource(GROUP, "ipaddresses")
        self._now = now
        # one after the other: of two with the same addresses only one may be deleted
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._ranges.watch(self._range_changed), self._addresses.watch(self._address_changed)]

    def _range_changed(self, event: str, obj: Object, old: Object | None) -> None:
        self._queue.add(obj["metadata"]["name"])
        if event != "MODIFIED":  # the addresses of a terminating range may be in this one
            self._add_terminating()

    def _address_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event == "DELETED":
            self._add_terminating()

    def _add_terminating(self) -> None:
        for service_cidr in self._ranges.lister.list():
            if service_cidr["metadata"].get("deletionTimestamp"):
                self._queue.add(service_cidr["metadata"]["name"])

    async def _handle(self, key: str) -> float | None:
        service_cidr = self._ranges.lister.get("", key)
        if service_cidr is None:
            return None
        deleted = service_cidr["metadata"].get("deletionTimestamp")
        try:
            if not deleted:
                await self._set_finalizer(key, service_cidr, present=True)
                await self._set_condition(key, service_cidr, terminating=False)
                return None
            if FINALIZER not in (service_cidr["metadata"].get("finalizers") or []):
                return None
            others = [other for other in await self._ranges.list() if other["metadata"]["name"] != key]
            others = [other for other in others if not _is_released(other)]
            if not may_be_deleted(service_cidr, others, await self._addresses.list()):
                await self._set_condition(key, service_cidr, terminating=True)
                return None  # a change of an address or a range queues it again
            left = _GRACE_SECONDS - (seconds_of(self._now()) - seconds_of(deleted))
            if left > 0:
                return left
            await self._set_finalizer(key, service_cidr, present=False)
        except status.NotFound:
            return None
        return None

    async def _set_finalizer(self, key: str, service_cidr: Object, present: bool) -> None:
        finalizers = with_finalizer(service_cidr, present)
        if finalizers is not None:
            version = service_cidr["metadata"]["resourceVersion"]
            await self._ranges.patch(key, {"metadata": {"finalizers": finalizers, "resourceVersion": version}})

    async def _set_condition(self, key: str, service_cidr: Object, *, terminating: bool) -> None:
        patch = condition_patch(service_cidr, self._now(), terminating=terminating)
        if patch is not None:
            await self._ranges.apply(key, patch, subresource="status")


def _is_released(service_cidr: Object) -> bool:
    """Whether a range is being deleted and this controller's finalizer is removed."""
    metadata = service_cidr["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FINALIZER not in (metadata.get("finalizers") or [])
