"""Defaults of a Service (upstream: ``pkg/apis/core/v1/defaults.go``)."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.core.services.access import (
    CLUSTER_IP,
    LOAD_BALANCER,
    NODE_PORT,
    is_externally_accessible,
    spec_of,
)

_AFFINITY_SECONDS = 10800


def default(service: Object) -> None:
    """Sets the defaults, in place."""
    spec = spec_of(service)
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    _default_affinity(spec)
    spec["type"] = spec.get("type") or CLUSTER_IP
    for port in elements(spec, "ports"):
        port["protocol"] = port.get("protocol") or "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if is_externally_accessible(service) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and spec["type"] in (CLUSTER_IP, NODE_PORT, LOAD_BALANCER):
        spec["internalTrafficPolicy"] = "Cluster"
    status: Object = service.setdefault("status", {})
    balancer: Object = status.setdefault("loadBalancer", {})
    if spec["type"] == LOAD_BALANCER:
        if spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        for ingress in elements(balancer, "ingress"):
            if ingress.get("ip") and ingress.get("ipMode") is None:
                ingress["ipMode"] = "VIP"


def _default_affinity(spec: Object) -> None:
    affinity = spec["sessionAffinity"]
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        if ((config.get("clientIP") or {}).get("timeoutSeconds")) is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
