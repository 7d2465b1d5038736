"""The table of Services (upstream: printers ``printService``)."""

from __future__ import annotations

from kapi.machinery.tree import Object
from kapi.resources.core.services.access import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    LOAD_BALANCER,
    NODE_PORT,
    cluster_ips,
    ports,
    type_of,
)
from kapi.resources.shared import printing
from kapi.resources.shared.printing import NONE, joined


def _external_ip(service: Object, now: float) -> str:
    spec = service.get("spec") or {}
    external = spec.get("externalIPs") or []
    kind = type_of(service)
    if kind in (CLUSTER_IP, NODE_PORT):
        return joined(external)
    if kind == LOAD_BALANCER:
        ingresses = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        found = sorted({ingress.get("ip") or ingress.get("hostname") or "" for ingress in ingresses} - {""})
        return joined([*found, *external], "<pending>")
    return spec.get("externalName", "") if kind == EXTERNAL_NAME else printing.UNKNOWN


def _port(port: Object) -> str:
    node = port.get("nodePort") or 0
    number = f"{port.get('port', 0)}:{node}" if node > 0 else str(port.get("port", 0))
    return f"{number}/{port.get('protocol', '')}"


TABLE = printing.table(
    "Service",
    printing.name,
    lambda service, now: type_of(service),
    lambda service, now: (cluster_ips(service) or [NONE])[0],
    _external_ip,
    lambda service, now: joined(_port(port) for port in ports(service)),
    printing.age,
    lambda service, now: printing.labels((service.get("spec") or {}).get("selector")),
)
