"""The strategies of Services: defaults, update rules, warnings; and their table.

Upstream: ``pkg/registry/core/service``, ``pkg/api/service/warnings.go``, ``pkg/apis/core/v1/defaults.go``, printers
(``printService``).
"""

from __future__ import annotations

from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import FieldError, Path
from kapi.machinery.tree import Object
from kapi.resources.core.services.access import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    LOAD_BALANCER,
    NODE_PORT,
    cluster_ips,
    families,
    family_policy,
    is_externally_accessible,
    may_have_node_ports,
    needs_health_check,
    node_ports,
    ports,
    spec_of,
    type_of,
    wants_cluster_ip,
)
from kapi.resources.core.services.validation import (
    TOPOLOGY_HINTS,
    TOPOLOGY_MODE,
    validate_change,
    validate_load_balancer_status,
    validate_service,
)
from kapi.resources.definition import Strategy, StrategyContext
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import cidr_warnings, ip_warnings
from kapi.resources.shared.features import gate
from kapi.resources.shared.metadata import validate_metadata, validate_metadata_update
from kapi.resources.shared.names import label_name, service_name
from kapi.resources.shared.printing import NONE, joined

_AFFINITY_SECONDS = 10800
_SPEC = Path("spec")


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
        spec.setdefault("allocateLoadBalancerNodePorts", True)
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
    printing.column("Cluster-IP", lambda service, now: (cluster_ips(service) or [NONE])[0], ".spec.clusterIP"),
    printing.column("External-IP", _external_ip, ".spec.externalIPs"),
    printing.column("Port(s)", lambda service, now: joined(_port(port) for port in ports(service)), ".spec.ports"),
    printing.AGE,
    printing.column(
        "Selector",
        lambda service, now: printing.labels((service.get("spec") or {}).get("selector")),
        ".spec.selector",
        priority=1,
    ),
    of="api.core.v1.Service",
)


class ServiceStrategy(Strategy):
    """Addresses and ports are allocated by the lifecycle, before ``prepare_for_create``."""

    allow_create_on_update = True
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        default(obj)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        relaxed = gate(ctx, "RelaxedServiceNameValidation")
        validate_metadata(obj, errors, name=label_name if relaxed else service_name)
        validate_service(obj, None, errors, ctx)
        return errors

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return warnings(obj)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        obj["status"] = old.get("status") or {"loadBalancer": {}}
        drop_fields_of_old_type(obj, old)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        validate_metadata_update(obj, old, errors)
        validate_change(obj, old, errors)
        validate_service(obj, old, errors, ctx)
        return errors

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return warnings(obj)

    def canonicalize(self, obj: Object) -> None:
        if obj["spec"].get("type") == EXTERNAL_NAME:
            obj["spec"].pop("internalTrafficPolicy", None)  # a default of the previous type


class ServiceStatusStrategy(ServiceStrategy):
    """``services/status``.  As upstream it creates a missing Service, which must be valid without allocated addresses."""

    reset_fields = ("spec",)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        obj["spec"] = old["spec"]

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        validate_metadata_update(obj, old, errors)
        validate_load_balancer_status(obj, old, errors, ctx)
        return errors

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        texts: list[str] = []
        path = Path("status").child("loadBalancer", "ingress")
        for ingress, here in each_of(path, ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress")):
            if ingress.get("ip"):
                texts += ip_warnings(here, ingress["ip"])
        return texts


def drop_fields_of_old_type(new: Object, old: Object) -> None:
    """Drops fields that the new type does not have, if the client has sent them unchanged."""
    spec, before = spec_of(new), old.get("spec") or {}
    if wants_cluster_ip(old) and not wants_cluster_ip(new):
        if spec.get("clusterIP") == before.get("clusterIP") and cluster_ips(new) == cluster_ips(old):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        if families(new) == families(old):
            spec.pop("ipFamilies", None)
        if family_policy(new) == family_policy(old):
            spec.pop("ipFamilyPolicy", None)
    if may_have_node_ports(old) and not may_have_node_ports(new) and set(node_ports(new)) <= set(node_ports(old)):
        for port in elements(ports(new)):
            port.pop("nodePort", None)
    unchanged = [
        ("healthCheckNodePort", needs_health_check(old) and not needs_health_check(new)),
        ("loadBalancerClass", type_of(old) == LOAD_BALANCER != type_of(new)),
        ("externalTrafficPolicy", is_externally_accessible(old) and not is_externally_accessible(new)),
    ]
    allocate = spec.get("allocateLoadBalancerNodePorts")
    if allocate is not None:
        unchanged.append(("allocateLoadBalancerNodePorts", type_of(old) == LOAD_BALANCER != type_of(new)))
    for name, gone in unchanged:
        if gone and spec.get(name) == before.get(name):
            spec.pop(name, None)
    if type_of(new) != LOAD_BALANCER:
        status = dict(new.get("status") or {})
        status["loadBalancer"] = {}
        new["status"] = status


def warnings(service: Object) -> list[str]:
    """Warnings about fields that are deprecated, ignored or not in canonical form."""
    spec = service.get("spec") or {}
    texts: list[str] = []
    if TOPOLOGY_HINTS in ((service.get("metadata") or {}).get("annotations") or {}):
        texts.append(f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead")
    given = spec.get("clusterIP") or ""
    if given and given != HEADLESS:
        for i, ip in enumerate(cluster_ips(service)):
            texts += ip_warnings(_SPEC.child("clusterIPs").index(i), ip)
    headless = type_of(service) == CLUSTER_IP and given == HEADLESS
    external = spec.get("externalIPs") or []
    if headless:
        if spec.get("loadBalancerIP"):
            texts.append("spec.loadBalancerIP is ignored for headless services")
        if external:
            texts.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity") != "None":
            texts.append("spec.SessionAffinity is ignored for headless services")
    for i, ip in enumerate(external):
        texts += ip_warnings(_SPEC.child("externalIPs").index(i), ip)
    if external and not headless and type_of(service) != EXTERNAL_NAME:
        texts.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("loadBalancerIP"):
        texts += ip_warnings(_SPEC.child("loadBalancerIP"), spec["loadBalancerIP"])
    for cidr, here in each(_SPEC.child("loadBalancerSourceRanges"), spec):
        texts += cidr_warnings(here, cidr)
    if type_of(service) == EXTERNAL_NAME and external:
        texts.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if type_of(service) != EXTERNAL_NAME and spec.get("externalName"):
        texts.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        texts.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return texts
