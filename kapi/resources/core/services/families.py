"""Decides on the cluster IPs and IP families of a Service, before addresses are allocated.

Upstream: ``pkg/registry/core/service/storage``: normalizeClusterIPs, patchAllocatedValues, initIPFamilyFields
(KEP-563, dual stack).  All functions change the new Service in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapi.machinery.each import elements
from kapi.machinery.field import FieldError, Path, invalid
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
    allocates_node_ports,
    cluster_ips,
    families,
    family_policy,
    needs_health_check,
    node_ports,
    ports,
    same_cluster_ips,
    same_families,
    spec_of,
    type_of,
    wants_cluster_ip,
)
from kapi.resources.core.services.validation import check_cluster_ips
from kapi.resources.definition import StrategyContext
from kapi.resources.shared.addresses import family_of, is_ipv6

_SPEC = Path("spec")


def normalize_cluster_ips(new: Object, old: Object | None) -> None:
    """Makes ``clusterIP`` and ``clusterIPs`` consistent when a client has changed only one of them."""
    spec = spec_of(new)
    given, listed = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if old is None:
        if given and not listed:
            spec["clusterIPs"] = [given]
        return
    before = (old.get("spec") or {}).get("clusterIP") or ""
    if cluster_ips(old) and not listed and before == given:
        spec["clusterIPs"] = cluster_ips(old)
    if before == given or not same_cluster_ips(old, new):
        return
    if before and not given:
        spec.pop("clusterIPs", None)
    else:
        spec["clusterIPs"] = [given]


def keep_allocated(new: Object, old: Object) -> None:
    """Restores allocated addresses and ports that are missing in an update."""
    spec, before = spec_of(new), old.get("spec") or {}
    if wants_cluster_ip(old) and wants_cluster_ip(new):
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and cluster_ips(old):
            spec["clusterIPs"] = cluster_ips(old)
    if allocates_node_ports(old) and allocates_node_ports(new):
        used = set(node_ports(old)) & set(node_ports(new))
        by_name = {port.get("name", ""): port.get("nodePort", 0) for port in elements(ports(old))}
        for port in elements(ports(new)):
            kept = by_name.get(port.get("name", ""), 0)
            if not port.get("nodePort") and kept and kept not in used:
                port["nodePort"] = kept
    health_port = before.get("healthCheckNodePort")
    if needs_health_check(old) and needs_health_check(new) and health_port and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = health_port


def families_on_read(service: Object, primary: str) -> None:
    """Sets the families of a Service that was stored without them."""
    spec = spec_of(service)
    normalize_cluster_ips(service, None)
    if type_of(service) == EXTERNAL_NAME:
        spec.pop("internalTrafficPolicy", None)
        return
    if families(service):
        return
    if spec.get("clusterIP") == HEADLESS:
        if spec.get("selector"):
            spec["ipFamilyPolicy"], spec["ipFamilies"] = SINGLE_STACK, [primary]
        else:
            spec["ipFamilyPolicy"], spec["ipFamilies"] = REQUIRE_DUAL_STACK, [primary, other_family(primary)]
        return
    found = [IPV6 if is_ipv6(ip) else IPV4 for ip in elements(cluster_ips(service))]
    if found:
        spec["ipFamilies"] = found
        spec["ipFamilyPolicy"] = SINGLE_STACK if len(found) == 1 else REQUIRE_DUAL_STACK


def other_family(family: str) -> str:
    return IPV6 if family == IPV4 else IPV4


def keeps_prefer_dual_stack(new: Object, old: Object | None) -> bool:
    """Whether an update does not change addresses and families of a PreferDualStack Service, so that they all stay."""
    if old is None or not family_policy(new) or type_of(old) != type_of(new):
        return False
    if type_of(new) not in (CLUSTER_IP, NODE_PORT, LOAD_BALANCER):
        return False
    if family_policy(new) != PREFER_DUAL_STACK or family_policy(old) not in ("", PREFER_DUAL_STACK):
        return False
    return same_cluster_ips(old, new) and same_families(old, new)


def decide_families(
    new: Object, old: Object | None, configured: Sequence[str], ctx: StrategyContext
) -> list[FieldError]:
    """Sets ``ipFamilyPolicy`` and ``ipFamilies``; ``configured`` are the cluster's families, the default one first.

    Returns the errors.
    """
    if type_of(new) == EXTERNAL_NAME or keeps_prefer_dual_stack(new, old):
        return []
    spec = spec_of(new)
    headless_without_selector = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        if old is not None and family_policy(old):
            spec["ipFamilyPolicy"] = family_policy(old)
        else:
            spec["ipFamilyPolicy"] = REQUIRE_DUAL_STACK if headless_without_selector else SINGLE_STACK
    errors = check_cluster_ips(new, old, ctx)
    if errors:
        return errors
    errors = _follow_policy(new, old) + _families_of_given_addresses(new, configured)
    if errors:
        return errors
    if headless_without_selector:
        _set_families(spec, configured[0], complete=spec["ipFamilyPolicy"] != SINGLE_STACK)
        return []
    if spec["ipFamilyPolicy"] == REQUIRE_DUAL_STACK and len(configured) < 2:
        errors.append(
            invalid(
                _SPEC.child("ipFamilyPolicy"),
                spec["ipFamilyPolicy"],
                "this cluster is not configured for dual-stack services",
            )
        )
    for i, family in enumerate(families(new)):
        if family not in configured:
            errors.append(invalid(_SPEC.child("ipFamilies").index(i), family, "not configured on this cluster"))
    if not errors:
        complete = spec["ipFamilyPolicy"] != SINGLE_STACK and len(configured) == 2
        _set_families(spec, configured[0], complete=complete)
    return errors


def _set_families(spec: Object, default: str, *, complete: bool) -> None:
    chosen = list(spec.get("ipFamilies") or [default])
    if complete and len(chosen) == 1:
        chosen.append(other_family(chosen[0]))
    spec["ipFamilies"] = chosen


def _follow_policy(new: Object, old: Object | None) -> list[FieldError]:
    """Drops the second address and family when the policy becomes SingleStack; refuses to drop them otherwise."""
    spec, policy = spec_of(new), family_policy(new)
    path = _SPEC.child("ipFamilyPolicy")
    errors: list[FieldError] = []
    if old is not None:
        if policy == SINGLE_STACK:
            if same_cluster_ips(old, new) and len(cluster_ips(new)) > 1:
                spec["clusterIPs"] = cluster_ips(new)[:1]
            if same_families(old, new) and len(families(new)) > 1:
                spec["ipFamilies"] = families(new)[:1]
        else:
            if 0 < len(cluster_ips(new)) < len(cluster_ips(old)):
                errors.append(invalid(path, policy, "must be 'SingleStack' to release the secondary cluster IP"))
            if 0 < len(families(new)) < len(families(old)):
                errors.append(invalid(path, policy, "must be 'SingleStack' to release the secondary IP family"))
    if policy == SINGLE_STACK:
        for values, what in ((cluster_ips(new), "cluster IPs"), (families(new), "IP families")):
            if len(values) == 2:
                detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                errors.append(invalid(path, policy, detail))
    return errors


def _families_of_given_addresses(new: Object, configured: Sequence[str]) -> list[FieldError]:
    spec = spec_of(new)
    errors: list[FieldError] = []
    for i, ip in enumerate(cluster_ips(new)):
        if ip == HEADLESS:
            break
        if i < len(families(new)):
            continue
        family = family_of(ip)
        if family in configured:
            spec["ipFamilies"] = [*families(new), family]
        else:
            path = _SPEC.child("clusterIPs").index(i)
            errors.append(invalid(path, cluster_ips(new), f"{family} is not configured on this cluster"))
    return errors
