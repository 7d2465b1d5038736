"""Validation of Services (upstream: ``pkg/apis/core/validation``: validateService, ValidateServiceUpdate)."""

from __future__ import annotations

from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import FieldError, Path, duplicate, forbidden, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.core.services.access import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    IPV4,
    IPV6,
    LOAD_BALANCER,
    NODE_PORT,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    cluster_ips,
    families,
    family_policy,
    is_externally_accessible,
    is_headless,
    needs_health_check,
    type_of,
)
from kapi.resources.definition import StrategyContext
from kapi.resources.shared.addresses import check_cidr_legacy, check_ip_legacy, is_ipv6, parse, validate_endpoint_ip
from kapi.resources.shared.features import gate
from kapi.resources.shared.metadata import validate_labels
from kapi.resources.shared.names import (
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_key,
    is_port_name,
    is_port_number,
)
from kapi.resources.shared.rules import Errors, check, distinct, enum, need, not_supported

_SPEC = Path("spec")
_ANNOTATIONS = Path("metadata").child("annotations")
TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"
TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_MAX_AFFINITY_SECONDS = 86400
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"
_NOT_EXTERNAL_NAME = "may not be set for ExternalName services"
_ONCE = "may not change once set"

_label = check(is_dns1123_label)
_qualified = check(is_label_key)
_protocol = enum("SCTP", "TCP", "UDP")
_type = enum(CLUSTER_IP, NODE_PORT, LOAD_BALANCER, EXTERNAL_NAME)
_affinity = enum("ClientIP", "None")
_policy = enum("Cluster", "Local")
#: by the value of the gate PreferSameTrafficDistribution
_distribution = {
    True: enum("PreferClose", "PreferSameZone", "PreferSameNode", in_order=True),
    False: enum("PreferClose"),
}
_family = enum(IPV4, IPV6)
_family_policy = enum(SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK)


def validate_service(service: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
    """All rules except the metadata's, in upstream's order; addresses of ``old`` may stay."""
    spec = service.get("spec") or {}
    annotations = (service.get("metadata") or {}).get("annotations") or {}
    mode, hints = annotations.get(TOPOLOGY_MODE), annotations.get(TOPOLOGY_HINTS)
    if mode is not None and hints is not None and mode != hints:
        detail = f"must match annotations[{TOPOLOGY_HINTS}] when both are specified"
        errors.append(invalid(_ANNOTATIONS.key(TOPOLOGY_MODE), mode, detail))
    kind, headless = type_of(service), is_headless(service)
    ports = spec.get("ports") or []
    if not ports and not headless and kind != EXTERNAL_NAME:
        errors.append(required(_SPEC.child("ports")))
    _validate_type_specifics(service, spec, errors)
    names: set[str] = set()
    for port, here in each_of(_SPEC.child("ports"), ports):
        _validate_port(port, len(ports) > 1, names, here, errors)
    if spec.get("selector"):
        validate_labels(spec["selector"], _SPEC.child("selector"), errors)
    _validate_affinity(spec, errors)
    errors += check_cluster_ips(service, old, ctx)
    accepted = set(elements(old, "spec", "externalIPs"))
    for ip, path in each(_SPEC.child("externalIPs"), spec):
        found = check_ip_legacy(path, ip, ctx, accepted)
        errors += found
        if not found:
            validate_endpoint_ip(ip, path, errors)
    if need(kind, _SPEC, errors, "type"):
        _type(kind, _SPEC.child("type"), errors, None)
    _validate_port_numbers(kind, ports, errors)
    _validate_source_ranges(kind, spec, annotations, old, errors, ctx)
    _validate_load_balancer(kind, spec, errors)
    _validate_traffic_policies(service, spec, errors, ctx)


def _validate_type_specifics(service: Object, spec: Object, errors: Errors) -> None:
    kind = type_of(service)
    if kind in (LOAD_BALANCER, NODE_PORT) and is_headless(service):
        path = _SPEC.child("clusterIPs").index(0)
        errors.append(invalid(path, HEADLESS, f"may not be set to 'None' for {kind} services"))
    if kind != EXTERNAL_NAME:
        return
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name) or (name == "ipFamilyPolicy" and spec.get(name) is not None):
            errors.append(forbidden(_SPEC.child(name), _NOT_EXTERNAL_NAME))
    name = (spec.get("externalName") or "").removesuffix(".")
    if name:
        check(is_dns1123_subdomain)(name, _SPEC.child("externalName"), errors, None)
    else:
        errors.append(required(_SPEC.child("externalName")))


def _validate_port(port: Object, needs_name: bool, names: set[str], path: Path, errors: Errors) -> None:
    name = port.get("name") or ""
    if name:
        _label(name, path.child("name"), errors, None)
        distinct(name, names, path, errors, "name")
    elif needs_name:
        errors.append(required(path.child("name")))
    check(is_port_number)(port.get("port", 0), path.child("port"), errors, None)
    _protocol(port.get("protocol"), path.child("protocol"), errors, None)
    target = port.get("targetPort", 0)
    check(is_port_name if isinstance(target, str) else is_port_number)(target, path.child("targetPort"), errors, None)
    if port.get("appProtocol") is not None:
        _qualified(port["appProtocol"], path.child("appProtocol"), errors, None)


def _validate_affinity(spec: Object, errors: Errors) -> None:
    """Checks the session affinity.  Defaults have set the seconds of ClientIP, and removed the settings of None."""
    affinity = spec.get("sessionAffinity")
    _affinity(affinity, _SPEC.child("sessionAffinity"), errors, None)
    if affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            path = _SPEC.child("sessionAffinityConfig", "clientIP", "timeoutSeconds")
            errors.append(invalid(path, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"))


def check_cluster_ips(service: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
    """Checks clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy for consistency; allocation uses this too."""
    errors: list[FieldError] = []
    if type_of(service) == EXTERNAL_NAME:
        return errors
    spec = service.get("spec") or {}
    given, ips = spec.get("clusterIP") or "", cluster_ips(service)
    path = _SPEC.child("clusterIPs")
    if given and not ips:
        errors.append(required(path))
    elif given and ips[0] != given:
        errors.append(invalid(path, ips, "first value must match `clusterIP`"))
    elif not given and ips:
        errors.append(invalid(path, ips, "must be empty when `clusterIP` is not specified"))
    seen: set[str] = set()
    for i, family in enumerate(families(service)):
        here = _SPEC.child("ipFamilies").index(i)
        _family(family, here, errors, None)
        distinct(family, seen, here, errors)
    if spec.get("ipFamilyPolicy") is not None:
        _family_policy(family_policy(service), _SPEC.child("ipFamilyPolicy"), errors, None)
    bad = False
    accepted = set(cluster_ips(old)) if old is not None else ()
    for i, ip in enumerate(ips):
        if i == 0 and ip == HEADLESS:
            if len(ips) > 1:
                bad = True
                errors.append(invalid(path, ips, "'None' must be the first and only value"))
            continue
        found = check_ip_legacy(path.index(i), ip, ctx, accepted)
        bad = bad or bool(found)
        errors += found
    if len(ips) > 2:
        errors.append(invalid(path, ips, "may only hold up to 2 values"))
    if bad:
        return errors
    if len(ips) > 1 and len({is_ipv6(ip) for ip in elements(ips)}) < 2:
        errors.append(invalid(path, ips, "may specify no more than one IP for each IP family"))
    if not is_headless(service):
        for i, (ip, family) in enumerate(elements(zip(ips, families(service), strict=False))):
            if (family == IPV4 and is_ipv6(ip)) or (family == IPV6 and not is_ipv6(ip)):
                detail = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
                errors.append(invalid(path.index(i), ip, detail))
    return errors


def _validate_port_numbers(kind: str, ports: list[Object], errors: Errors) -> None:
    path = _SPEC.child("ports")
    if kind == CLUSTER_IP:
        for port, here in each_of(path, ports):
            if port.get("nodePort"):
                errors.append(forbidden(here.child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
    seen: set[tuple[str, int]] = set()
    for port, here in each_of(path, ports):
        number = port.get("nodePort")
        if not number:
            continue
        mark = (port.get("protocol", ""), number)
        if mark in seen:
            errors.append(duplicate(here.child("nodePort"), number))
        seen.add(mark)
    seen = set()
    for port, here in each_of(path, ports):
        mark = (port.get("protocol", ""), port.get("port", 0))
        if mark in seen:
            # the internal type's fields, as Go writes a value that has no JSON names
            shown = {
                "Name": "", "Protocol": mark[0], "AppProtocol": None, "Port": mark[1], "TargetPort": 0, "NodePort": 0,
            }  # fmt: skip
            errors.append(duplicate(here, shown))
        seen.add(mark)


def _validate_source_ranges(
    kind: str, spec: Object, annotations: dict[str, str], old: Object | None, errors: Errors, ctx: StrategyContext
) -> None:
    ranges = spec.get("loadBalancerSourceRanges") or []
    if ranges:
        path = _SPEC.child("LoadBalancerSourceRanges")
        if kind != LOAD_BALANCER:
            errors.append(forbidden(path, _ONLY_LOAD_BALANCER))
        before = ((old or {}).get("spec") or {}).get("loadBalancerSourceRanges") or ()
        accepted = {text.strip() for text in elements(before)}
        for text, here in each_of(path, ranges):
            errors += check_cidr_legacy(here, text.strip(), ctx, accepted)
    elif SOURCE_RANGES in annotations:
        path, value = _ANNOTATIONS.key(SOURCE_RANGES), annotations[SOURCE_RANGES]
        if kind != LOAD_BALANCER:
            errors.append(forbidden(path, _ONLY_LOAD_BALANCER))
        before = ((old or {}).get("metadata") or {}).get("annotations") or {}
        if before.get(SOURCE_RANGES) != value and value.strip():
            for text in elements(value.strip().split(",")):
                errors += check_cidr_legacy(path, text.strip(), ctx)


def _validate_load_balancer(kind: str, spec: Object, errors: Errors) -> None:
    allocate = spec.get("allocateLoadBalancerNodePorts")
    if allocate is not None and kind != LOAD_BALANCER:
        errors.append(forbidden(_SPEC.child("allocateLoadBalancerNodePorts"), _ONLY_LOAD_BALANCER))
    _validate_class(kind, spec, errors)


def _validate_class(kind: str, spec: Object, errors: Errors) -> None:
    name, path = spec.get("loadBalancerClass"), _SPEC.child("loadBalancerClass")
    if name is None:
        return
    if kind == LOAD_BALANCER:
        _qualified(name, path, errors, None)
    else:
        errors.append(forbidden(path, _ONLY_LOAD_BALANCER))


def _validate_traffic_policies(service: Object, spec: Object, errors: Errors, ctx: StrategyContext) -> None:
    external, path = spec.get("externalTrafficPolicy") or "", _SPEC.child("externalTrafficPolicy")
    if is_externally_accessible(service):
        _policy(external, path, errors, None)
    elif external:
        errors.append(invalid(path, external, "may only be set for externally-accessible services"))
    port, path = spec.get("healthCheckNodePort") or 0, _SPEC.child("healthCheckNodePort")
    if not needs_health_check(service):
        if port:
            detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid(path, port, detail))
    elif not port:
        errors.append(required(path))
    else:
        check(is_port_number)(port, path, errors, None)
    if spec.get("internalTrafficPolicy") is not None:
        _policy(spec["internalTrafficPolicy"], _SPEC.child("internalTrafficPolicy"), errors, None)
    if spec.get("trafficDistribution") is not None:
        rule = _distribution[gate(ctx, "PreferSameTrafficDistribution")]
        rule(spec["trafficDistribution"], _SPEC.child("trafficDistribution"), errors, None)


def validate_change(service: Object, old: Object, errors: Errors) -> None:
    """Checks fields that an update may not change: addresses, families, load balancer class, health check port."""
    if EXTERNAL_NAME not in (type_of(service), type_of(old)):
        _validate_cluster_ip_change(service, old, errors)
        if is_headless(service) == is_headless(old) and not is_headless(service):
            _validate_family_change(service, old, errors)
    spec, before = service.get("spec") or {}, old.get("spec") or {}
    if type_of(old) == type_of(service) == LOAD_BALANCER:
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            errors.append(invalid(_SPEC.child("loadBalancerClass"), name, _ONCE))
    _validate_class(type_of(service), spec, errors)
    port_changed = spec.get("healthCheckNodePort", 0) != before.get("healthCheckNodePort", 0)
    if needs_health_check(old) and needs_health_check(service) and port_changed:
        errors.append(forbidden(_SPEC.child("healthCheckNodePort"), "field is immutable"))


def _single_stack_required(service: Object, what: str, errors: Errors) -> None:
    policy = family_policy(service)
    if policy != SINGLE_STACK:
        detail = f"must be set to 'SingleStack' when releasing the secondary {what}"
        errors.append(invalid(_SPEC.child("ipFamilyPolicy"), policy or None, detail))


def _validate_cluster_ip_change(service: Object, old: Object, errors: Errors) -> None:
    new_ips, old_ips = cluster_ips(service), cluster_ips(old)
    if is_headless(service) and is_headless(old):
        return
    path = _SPEC.child("clusterIPs")
    if len(new_ips) == len(old_ips):
        for i, (ip, before) in enumerate(zip(elements(new_ips), old_ips, strict=True)):
            if ip != before:
                errors.append(invalid(path.index(i), new_ips, _ONCE))
        return
    if len(old_ips) > len(new_ips) and not new_ips:
        errors.append(invalid(path.index(0), None, "primary clusterIP can not be unset"))
    if old_ips and new_ips and new_ips[0] != old_ips[0]:
        errors.append(invalid(path.index(0), new_ips, _ONCE))
    if len(old_ips) > len(new_ips) == 1:
        _single_stack_required(service, "clusterIP", errors)


def _validate_family_change(service: Object, old: Object, errors: Errors) -> None:
    new, before = families(service), families(old)
    path = _SPEC.child("ipFamilies").index(0)
    if len(new) == len(before):
        for family, was in zip(elements(new), before, strict=True):
            if family != was:
                errors.append(invalid(path, new, _ONCE))
        return
    if len(before) > len(new) and not cluster_ips(service):
        errors.append(invalid(path, new, "primary ipFamily can not be unset"))
    if new and before and new[0] != before[0]:
        errors.append(invalid(path, cluster_ips(service), _ONCE))
    if len(before) > len(new) == 1:
        _single_stack_required(service, "ipFamily", errors)


def validate_load_balancer_status(service: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
    """Checks ``status.loadBalancer``: addresses, names and IP modes."""
    path = Path("status").child("loadBalancer", "ingress")
    ingresses = _ingresses(service)
    if ingresses and type_of(service) != LOAD_BALANCER:
        errors.append(forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'"))
        return
    accepted = {ingress["ip"] for ingress in _ingresses(old) if ingress.get("ip")}
    for ingress, here in each_of(path, ingresses):
        ip, mode, name = ingress.get("ip") or "", ingress.get("ipMode"), ingress.get("hostname") or ""
        if ip:
            errors += check_ip_legacy(here.child("ip"), ip, ctx, accepted)
        if mode is None:
            if ip:
                errors.append(required(here.child("ipMode"), "must be specified when `ip` is set"))
        elif not ip:
            errors.append(forbidden(here.child("ipMode"), "may not be specified when `ip` is not set"))
        elif mode not in ("Proxy", "VIP"):
            errors.append(not_supported(here.child("ipMode"), mode, ("Proxy", "VIP")))
        if name:
            check(is_dns1123_subdomain)(name, here.child("hostname"), errors, None)
            if parse(name) is not None:
                errors.append(invalid(here.child("hostname"), name, "must be a DNS name, not an IP address"))


def _ingresses(service: Object) -> list[Object]:
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
