"""Accessors of a Service, for its defaults, strategy, validation and allocation.

Upstream: ``pkg/api/service/util.go``, ``pkg/registry/core/service``.
"""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.tree import Object

CLUSTER_IP, NODE_PORT, LOAD_BALANCER, EXTERNAL_NAME = "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"
SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK = "SingleStack", "PreferDualStack", "RequireDualStack"
IPV4, IPV6 = "IPv4", "IPv6"
HEADLESS = "None"


def spec_of(service: Object) -> Object:
    spec: Object = service.setdefault("spec", {})
    return spec


def type_of(service: Object) -> str:
    return str((service.get("spec") or {}).get("type") or "")


def cluster_ips(service: Object) -> list[str]:
    return list((service.get("spec") or {}).get("clusterIPs") or [])


def families(service: Object) -> list[str]:
    return list((service.get("spec") or {}).get("ipFamilies") or [])


def family_policy(service: Object) -> str:
    return str((service.get("spec") or {}).get("ipFamilyPolicy") or "")


def ports(service: Object) -> list[Object]:
    return (service.get("spec") or {}).get("ports") or []


def is_headless(service: Object) -> bool:
    return cluster_ips(service) == [HEADLESS]


def wants_cluster_ip(service: Object) -> bool:
    return type_of(service) != EXTERNAL_NAME


def may_have_node_ports(service: Object) -> bool:
    return type_of(service) in (NODE_PORT, LOAD_BALANCER)


def allocates_node_ports(service: Object) -> bool:
    """Whether ports without a node port get one."""
    kind = type_of(service)
    if kind == NODE_PORT:
        return True
    return kind == LOAD_BALANCER and service["spec"].get("allocateLoadBalancerNodePorts", True) is not False


def is_externally_accessible(service: Object) -> bool:
    if may_have_node_ports(service):
        return True
    return type_of(service) == CLUSTER_IP and bool(service["spec"].get("externalIPs"))


def needs_health_check(service: Object) -> bool:
    return type_of(service) == LOAD_BALANCER and service["spec"].get("externalTrafficPolicy") == "Local"


def node_ports(service: Object) -> list[int]:
    return [port["nodePort"] for port in elements(ports(service)) if port.get("nodePort")]


def same_cluster_ips(old: Object, new: Object) -> bool:
    return cluster_ips(old) == cluster_ips(new)


def same_families(old: Object, new: Object) -> bool:
    return families(old) == families(new)
