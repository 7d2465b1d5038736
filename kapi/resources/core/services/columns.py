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
from kapi.resources.definition import FieldText
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
    printing.NAME,
    printing.column(
        "Type",
        lambda service, now: type_of(service),
        "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are "
        'ExternalName, ClusterIP, NodePort, and LoadBalancer. "ClusterIP" allocates a cluster-internal '
        "IP address for load-balancing to endpoints. Endpoints are determined by the selector or if that "
        "is not specified, by manual construction of an Endpoints object or EndpointSlice objects. If "
        'clusterIP is "None", no virtual IP is allocated and the endpoints are published as a set of '
        'endpoints rather than a virtual IP. "NodePort" builds on ClusterIP and allocates a port on '
        'every node which routes to the same endpoints as the clusterIP. "LoadBalancer" builds on '
        "NodePort and creates an external load-balancer (if supported in the current cloud) which routes "
        'to the same endpoints as the clusterIP. "ExternalName" aliases this service to the specified '
        "externalName. Several other fields do not apply to ExternalName services. More info: "
        "https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
    ),
    printing.column(
        "Cluster-IP",
        lambda service, now: (cluster_ips(service) or [NONE])[0],
        FieldText("api.core.v1.ServiceSpec", "clusterIP"),
    ),
    printing.column("External-IP", _external_ip, FieldText("api.core.v1.ServiceSpec", "externalIPs")),
    printing.column(
        "Port(s)",
        lambda service, now: joined(_port(port) for port in ports(service)),
        FieldText("api.core.v1.ServiceSpec", "ports"),
    ),
    printing.AGE,
    printing.column(
        "Selector",
        lambda service, now: printing.labels((service.get("spec") or {}).get("selector")),
        FieldText("api.core.v1.ServiceSpec", "selector"),
        priority=1,
    ),
)
