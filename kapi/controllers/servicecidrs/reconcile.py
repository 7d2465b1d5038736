"""Whether a ServiceCIDR may be deleted, and its condition (upstream: ``pkg/controller/servicecidrs``)."""

from __future__ import annotations

from collections.abc import Iterable

from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import MANAGED_BY_LABEL, MANAGER, networks_of
from kapi.resources.core.services.allocation import holds
from kapi.resources.shared.addresses import Network, parse

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_READY = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"}
_TERMINATING = {
    "type": "Ready",
    "status": "False",
    "reason": "Terminating",
    "message": "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
}


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
