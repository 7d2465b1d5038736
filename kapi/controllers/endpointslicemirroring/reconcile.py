"""Which Endpoints are mirrored, and the endpoints that their slices hold."""

from __future__ import annotations

from kapi.controllers.endpointslice.slices import Group, Owner, Plan, plan
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object

MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR_LABEL, LEADER_ANNOTATION = (
    "endpointslice.kubernetes.io/skip-mirror",
    "control-plane.alpha.kubernetes.io/leader",
)
MAX_MIRRORED = 1000  # addresses of a subset
_NOT_COPIED = frozenset(
    ["kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time"]
)


def is_mirrored(endpoints: Object | None, service: Object | None) -> bool:
    """Whether they belong to a Service without selector, have no label against it, and are no lock."""
    if endpoints is None or service is None or (service.get("spec") or {}).get("selector"):
        return False
    metadata = endpoints["metadata"]
    if metadata.get("deletionTimestamp") or (metadata.get("labels") or {}).get(SKIP_MIRROR_LABEL) == "true":
        return False
    return LEADER_ANNOTATION not in (metadata.get("annotations") or {})


def reconciled(endpoints: Object, existing: list[Object]) -> Plan:
    """The changes of the slices of Endpoints."""
    metadata = endpoints["metadata"]
    annotations = metadata.get("annotations") or {}
    owner = Owner(
        name=metadata["name"],
        reference={
            "apiVersion": "v1",
            "kind": "Endpoints",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        },
        labels={name: value for name, value in entries(metadata, "labels") if name != SKIP_MIRROR_LABEL},
        annotations={name: value for name, value in annotations.items() if name not in _NOT_COPIED},
        manager=MANAGER,
        headless=False,
        identity=lambda endpoint: str(endpoint["addresses"][0]),
        limit=MAX_MIRRORED,
    )
    return plan(owner, desired_endpoints(endpoints), existing)


def desired_endpoints(endpoints: Object) -> dict[Group, list[Object]]:
    """The endpoints by family and ports.  Of an address that occurs twice the ready one counts."""
    found: dict[Group, dict[str, Object]] = {}
    for subset in elements(endpoints, "subsets"):
        ports = [{"name": "", **port} for port in elements(subset, "ports")]
        mirrored = 0
        for part, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in elements(subset, part):
                if mirrored >= MAX_MIRRORED:
                    break
                mirrored += 1
                family = "IPv6" if ":" in address["ip"] else "IPv4"
                found.setdefault(Group.of(family, ports), {}).setdefault(address["ip"], _endpoint(address, ready))
    return {group: list(endpoints.values()) for group, endpoints in found.items()}


def _endpoint(address: Object, ready: bool) -> Object:
    made: Object = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
    for name in ("hostname", "nodeName", "targetRef"):
        if address.get(name):
            made[name] = address[name]
    return made
