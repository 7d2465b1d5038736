"""The endpoints of a Service, from its pods (upstream: ``k8s.io/endpointslice`` ``reconciler.go``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapi.controllers.endpointslice.slices import Group, Owner, Plan, plan
from kapi.controllers.service_pods import (
    addresses,
    has_ended,
    hostname_for,
    is_going,
    is_headless,
    is_ready,
    ports_of,
    reference_to,
    selected,
)
from kapi.machinery.tree import Object

MANAGER = "endpointslice-controller.k8s.io"
_ZONE = "topology.kubernetes.io/zone"


def reconciled(
    service: Object, pods: Iterable[Object], nodes: Mapping[str, Object], existing: Iterable[Object]
) -> Plan:
    """The changes of the slices of a Service."""
    metadata = service["metadata"]
    owner = Owner(
        name=metadata["name"],
        reference={
            "apiVersion": "v1",
            "kind": "Service",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        },
        labels=metadata.get("labels") or {},
        annotations={},
        manager=MANAGER,
        headless=is_headless(service),
        identity=lambda endpoint: str((endpoint.get("targetRef") or {}).get("uid", "")),
    )
    return plan(owner, desired_endpoints(service, pods, nodes), existing)


def desired_endpoints(
    service: Object, pods: Iterable[Object], nodes: Mapping[str, Object]
) -> dict[Group, list[Object]]:
    """The endpoints by family and ports; each family has a group even without endpoints."""
    found: dict[Group, list[Object]] = {}
    chosen = [pod for pod in selected(service, pods) if not has_ended(pod)]
    for family in families(service):
        empty = True
        for pod in chosen:
            ips = addresses(pod, family)
            if ips:
                group = Group.of(family, ports_of(service, pod))
                found.setdefault(group, []).append(_endpoint(service, pod, ips, nodes))
                empty = False
        if empty:
            found[Group.of(family, [])] = []
    return found


def families(service: Object) -> list[str]:
    spec = service.get("spec") or {}
    return spec.get("ipFamilies") or ["IPv6" if ":" in (spec.get("clusterIP") or "") else "IPv4"]


def _endpoint(service: Object, pod: Object, ips: list[str], nodes: Mapping[str, Object]) -> Object:
    serving, terminating = is_ready(pod), is_going(pod)
    tolerant = bool((service.get("spec") or {}).get("publishNotReadyAddresses"))
    made: Object = {
        "addresses": ips,
        "conditions": {
            "ready": tolerant or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": reference_to(pod),
    }
    hostname = hostname_for(pod, service)
    if hostname:
        made["hostname"] = hostname
    node = (pod.get("spec") or {}).get("nodeName")
    if node:
        made["nodeName"] = node
        zone = (((nodes.get(node) or {}).get("metadata") or {}).get("labels") or {}).get(_ZONE)
        if zone:
            made["zone"] = zone
    return made
