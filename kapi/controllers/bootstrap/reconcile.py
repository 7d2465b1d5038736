"""The objects that the server creates for itself (upstream: ``pkg/controlplane`` post-start hooks)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from kapi.machinery.tree import Object
from kapi.resources.scheduling.priorityclasses import SYSTEM_CLASSES
from kapi.resources.shared.addresses import parse_network

NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")
SERVICE = "kubernetes"
NAMESPACE = "default"
_READY = "Kubernetes default Service CIDR is ready"


def namespaces() -> list[Object]:
    return [{"metadata": {"name": name}} for name in NAMESPACES]


def priority_classes() -> list[Object]:
    return [dict(known) for known in SYSTEM_CLASSES]


def service_cidr(ranges: Sequence[str]) -> Object:
    return {"metadata": {"name": SERVICE}, "spec": {"cidrs": list(ranges)}}


def ready_status(existing: Object, ranges: Sequence[str], now: str) -> Object | None:
    """The status with which addresses are allocated; None when it has the condition, or the ranges differ."""
    if (existing.get("spec") or {}).get("cidrs") != list(ranges):
        return None
    conditions = (existing.get("status") or {}).get("conditions") or []
    if any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions):
        return None
    return {
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now, "message": _READY}],
        }
    }


def first_address(cidr: str) -> str:
    """The cluster IP of the kubernetes Service."""
    parsed = parse_network(cidr)
    if parsed is None:
        raise ValueError(f"not a CIDR: {cidr}")
    number = int(parsed[1].network_address) + 1
    return str(ipaddress.IPv4Address(number) if parsed[1].version == 4 else ipaddress.IPv6Address(number))


def kubernetes_service(cluster_ip: str, port: int, node_port: int = 0) -> Object:
    """``port`` is where the server listens; ``node_port`` 0 means ClusterIP only."""
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
    """The addresses to publish: this server's, and those of living servers of the same family."""
    family = ipaddress.ip_address(own).version
    return sorted({own, *(address for address in alive if ipaddress.ip_address(address).version == family)})


def kubernetes_endpoints(addresses: Sequence[str], port: int) -> Object:
    shown = [{"ip": address} for address in addresses]
    return {
        "metadata": {"name": SERVICE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [
            {"addresses": shown, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]},
        ],
    }


def kubernetes_endpoint_slice(addresses: Sequence[str], port: int) -> Object:
    return {
        "metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": f"IPv{ipaddress.ip_address(addresses[0]).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


def corrected(existing: Object, desired: Object, *parts: str) -> Object | None:
    """The existing object with the desired fields; None when it has them."""
    if all(existing.get(part) == desired.get(part) for part in parts):
        return None
    return {**existing, **{part: desired[part] for part in parts}}


def corrected_service(existing: Object, desired: Object) -> Object | None:
    """The existing Service with the desired ports and type; its address stays."""
    spec, desired_spec = existing.get("spec") or {}, desired["spec"]
    same_ports = [
        {key: port.get(key) for key in ("name", "port", "protocol", "targetPort")} for port in spec.get("ports") or []
    ] == [{key: port.get(key) for key in ("name", "port", "protocol", "targetPort")} for port in desired_spec["ports"]]
    if same_ports and spec.get("type") == desired_spec["type"]:
        return None
    return {**existing, "spec": {**spec, "ports": desired_spec["ports"], "type": desired_spec["type"]}}
