"""The spec of a pod, alone or in a template (upstream: ``core/validation`` ValidatePodSpec)."""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery import field, quantities
from kapi.machinery.each import each, elements
from kapi.machinery.field import Path
from kapi.machinery.pod_resources import of_containers
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared.addresses import check_ip_legacy
from kapi.resources.shared.affinity import validate_affinity, validate_spread, validate_tolerations
from kapi.resources.shared.compute import validate_pod_resource_name, validate_resources
from kapi.resources.shared.containers import (
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_labels
from kapi.resources.shared.names import (
    is_dns1123_label,
    is_dns1123_subdomain,
    is_dns1123_subdomain_with_underscore,
    is_qualified_name,
    subdomain_name,
)
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.resource_names import is_huge_page
from kapi.resources.shared.rules import (
    Errors,
    Rule,
    at,
    check,
    fits,
    in_range,
    need,
    not_supported,
    report,
    struct,
    supported,
    unless,
    unless_empty,
)
from kapi.resources.shared.security import (
    containers_with_paths,
    validate_host_process,
    validate_linux,
    validate_pod_security,
    validate_windows,
)
from kapi.resources.shared.volumes import validate_volumes

MIRROR = "kubernetes.io/config.mirror"
_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")


def _choice(*values: str) -> Rule:
    """Checks a required value against a list, which the error shows in this order."""

    def validate(value: str, path: Path, errors: Errors, ctx: object) -> None:
        if need(value, path, errors):
            supported(value, values, path, errors)

    return unless(frozenset(values).__contains__, validate)


def _resource_claims(claims: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> None:
    seen = set()
    mirror = MIRROR in ((ctx.metadata or {}).get("annotations") or {})
    for i, claim in enumerate(claims):
        here, name = path.index(i), claim.get("name", "")
        if mirror:
            errors.append(field.forbidden("[]", "static pods do not support resource claims"))
            continue
        if not name:
            errors.append(field.required(here.child("name")))
        elif name in seen:
            errors.append(field.duplicate(here.child("name"), name))
        else:
            report(is_dns1123_label(name), name, here, errors, "name")
            seen.add(name)
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if direct is not None and template is not None:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(field.invalid(here, internal("PodResourceClaim", claim), text))
        if direct is None and template is None:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(field.invalid(here, internal("PodResourceClaim", claim), text))
        for part, value in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
            report(subdomain_name(value) if value is not None else (), value, here, errors, part)


def _pod_resources(spec: Object, resources: Object, spec_path: Path, errors: Errors, ctx: PodOptions) -> None:
    path = spec_path.child("resources")
    if ctx.os == "windows":
        errors.append(field.forbidden(path, "may not be set for a windows pod"))
        return
    if resources.get("claims") is not None:
        errors.append(field.forbidden(path.child("claims"), "claims may not be set for Resources at pod-level"))
    validate_resources(
        resources,
        path,
        errors,
        name_rule=validate_pod_resource_name,
        claim_names=ctx.claim_names,
        allow_indivisible=ctx.allow_indivisible_huge_pages,
    )
    _against_containers(spec, resources, path, errors)


def _against_containers(spec: Object, resources: Object, path: Path, errors: Errors) -> None:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, needed in elements(ordered(of_containers(spec, "requests").items())):
        given = requests.get(name)
        if given is not None and quantities.compare(needed, given) > 0:
            text = f"must be greater than or equal to aggregate container requests of {needed}"
            errors.append(field.invalid(path.child("requests").key(name), given, text))
    for name, needed in elements(ordered(of_containers(spec, "limits").items())):
        given = limits.get(name)
        if is_huge_page(name) and given is not None and quantities.compare(needed, given) > 0:
            text = f"must be greater than or equal to aggregate container limits of {needed}"
            errors.append(field.invalid(path.child("limits").key(name), given, text))
    for container, here in each(path.child("containers"), spec):
        for name, limit in elements(ordered(((container.get("resources") or {}).get("limits") or {}).items())):
            given = limits.get(name)
            if given is not None and quantities.compare(limit, given) > 0:
                text = f"must be less than or equal to pod limits of {given}"
                errors.append(field.invalid(here.key(name).child("limits"), limit, text))


def _host_network_ports(spec: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    if not spec.get("hostNetwork"):
        return
    for container, place in each(path.child("containers"), spec):
        for j, port in enumerate(elements(container, "ports")):
            host, number = port.get("hostPort", 0), port.get("containerPort", 0)
            if (ctx.is_pod or host != 0) and host != number:
                here = place.child("ports").index(j).child("hostPort")
                errors.append(field.invalid(here, host, "must match `containerPort` when `hostNetwork` is true"))


def _dns_config(spec: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    config = spec.get("dnsConfig")
    here = path.child("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            errors.append(field.required(here, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.append(field.required(here.child("nameservers"), text))
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > 3:
        errors.append(field.invalid(here.child("nameservers"), servers, "must not have more than 3 nameservers"))
    for i, server in enumerate(servers):
        errors.extend(check_ip_legacy(here.child("nameservers").index(i), server, ctx))
    if len(searches) > 32:
        errors.append(field.invalid(here.child("searches"), searches, "must not have more than 32 search paths"))
    if len(" ".join(searches).encode()) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        errors.append(field.invalid(here.child("searches"), searches, text))
    rule = is_dns1123_subdomain_with_underscore if ctx.relaxed_searches else is_dns1123_subdomain
    for i, search in enumerate(searches):
        if search != "." or not ctx.relaxed_searches:
            name = search.removesuffix(".")
            for text in rule(name):
                errors.append(field.invalid(here.child("searches").index(i), name, text))
    for option, place in each(here.child("options"), config):
        need(option.get("name"), place, errors, detail="must not be empty")


def _readiness_gates(gates: list[Object], path: Path, errors: Errors, ctx: object) -> None:
    for i, gate in enumerate(gates):
        kind = gate.get("conditionType", "")
        for text in is_qualified_name(kind):
            errors.append(field.invalid(path.index(i).child("conditionType"), kind, text))


def _scheduling_gates(gates: list[Object], path: Path, errors: Errors, ctx: object) -> None:
    seen = set()
    for i, gate in enumerate(gates):
        name = gate.get("name", "")
        for text in is_qualified_name(name):
            errors.append(field.invalid(path.index(i), name, text))
        if name in seen:
            errors.append(field.duplicate(path.index(i), name))
        seen.add(name)


def _host_users(spec: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    if ctx.host_users:
        return
    text = "when `hostUsers` is false"
    if not ctx.user_namespace_host_network and spec.get("hostNetwork"):
        errors.append(field.forbidden(path.child("hostNetwork"), text))
    for name, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            errors.append(field.forbidden(path.child(shown), text))
    if not ctx.allow_volume_devices:
        for container, here in elements(containers_with_paths(spec, path)):
            if container.get("volumeDevices"):
                errors.append(field.forbidden(here.child("volumeDevices"), text))


def _hostname_override(spec: Object, path: Path, errors: Errors, ctx: object) -> None:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    here = path.child("hostnameOverride")
    if spec.get("setHostnameAsFQDN"):
        errors.append(field.forbidden(here, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(field.forbidden(here, "may not be specified when hostNetwork is true"))
    fits(len(name.encode()), 64, here, errors)
    report(is_dns1123_subdomain(name), name, here, errors)


def _host_aliases(aliases: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> None:
    for i, alias in enumerate(aliases):
        errors.extend(check_ip_legacy(path.index(i).child("ip"), alias.get("ip", ""), ctx))
        for name, here in each(path.index(i).child("hostnames"), alias):
            report(is_dns1123_subdomain(name), name, here, errors)


def _overhead(overhead: Mapping[str, str], path: Path, errors: Errors, ctx: PodOptions) -> None:
    validate_resources({"limits": overhead}, path, errors, allow_indivisible=ctx.allow_indivisible_huge_pages)


def _os(os: Object, spec: Object, path: Path, errors: Errors) -> None:
    name = os.get("name", "")
    here = path.child("os")
    if not name:
        errors.append(field.required(here.child("name")))
    elif name == "linux":
        validate_linux(spec, path, errors)
    elif name == "windows":
        validate_windows(spec, path, errors)
    else:
        errors.append(not_supported(here, name, ("linux", "windows")))


def _scheduling_group(group: Object, path: Path, errors: Errors, ctx: object) -> None:
    name, here = group.get("podGroupName"), path.child("podGroupName")
    if name is None:
        errors.append(field.invalid(here, None, "must specify one of: `podGroupName`"))
    report(subdomain_name(name) if name is not None else (), name, here, errors)


def _file_key_volumes(spec: Object, path: Path, errors: Errors, ctx: object) -> None:
    """Checks that files with environment variables are in an emptyDir."""
    volumes = {volume.get("name", ""): volume for volume in elements(spec, "volumes")}
    for container, here in elements(containers_with_paths(spec, path)):
        for i, variable in enumerate(elements(container, "env")):
            ref = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if ref is None:
                continue
            name = ref.get("volumeName", "")
            place = here.child("env").index(i).child("valueFrom", "fileKeyRef", "volumeName")
            if name not in volumes:
                errors.append(field.not_found(place, name))
            elif volumes[name].get("emptyDir") is None:
                errors.append(field.invalid(place, name, "referenced volume must be of type emptyDir"))


_SUBDOMAIN = check(subdomain_name)
_LABEL = check(is_dns1123_label)

_BEFORE_SECURITY = struct(
    _host_network_ports, at("restartPolicy", _choice(*_RESTART), zero=""), at("dnsPolicy", _choice(*_DNS), zero="")
)
_AFTER_SECURITY = struct(
    at("affinity", validate_affinity),
    _dns_config,
    unless_empty("readinessGates", _readiness_gates),
    unless_empty("schedulingGates", _scheduling_gates),
    unless_empty("topologySpreadConstraints", validate_spread),
    validate_host_process,
    _host_users,
    _hostname_override,
    unless_empty("serviceAccountName", _SUBDOMAIN),
    unless_empty("nodeName", _SUBDOMAIN),
    at("activeDeadlineSeconds", in_range(1, 2147483647)),
    unless_empty("hostname", _LABEL),
    unless_empty("subdomain", _LABEL),
    unless_empty("tolerations", validate_tolerations),
    unless_empty("hostAliases", _host_aliases),
    unless_empty("priorityClassName", _SUBDOMAIN),
    at("runtimeClassName", _SUBDOMAIN),
    at("preemptionPolicy", _choice(*_PREEMPTION)),
    at("overhead", _overhead),
)


def validate_pod_spec(
    spec: Object, path: Path, errors: Errors, ctx: PodOptions, metadata: Mapping[str, Tree] | None = None
) -> None:
    """``metadata`` is the pod's own; None in a template."""
    get = spec.get
    ctx.metadata = metadata
    ctx.grace = get("terminationGracePeriodSeconds")
    ctx.host_users = get("hostUsers") is not False
    ctx.os = (get("os") or {}).get("name", "")
    ctx.restart_policy = get("restartPolicy", "")
    volumes = get("volumes")
    ctx.volumes = validate_volumes(volumes, path.child("volumes"), errors, ctx) if volumes else {}
    claims = get("resourceClaims") or []
    ctx.claim_names = frozenset(claim["name"] for claim in claims if claim.get("name"))
    if claims:
        _resource_claims(claims, path.child("resourceClaims"), errors, ctx)
    containers = get("containers") or []
    validate_containers(containers, path.child("containers"), errors, ctx)
    initial, ephemeral = get("initContainers"), get("ephemeralContainers")
    if initial:
        validate_init_containers(initial, containers, path.child("initContainers"), errors, ctx)
    if ephemeral:
        others = {container.get("name", "") for container in [*containers, *(initial or ())]}
        validate_ephemeral_containers(ephemeral, others, path.child("ephemeralContainers"), errors, ctx)
    resources = get("resources")
    if resources is not None and ctx.pod_level_resources:
        _pod_resources(spec, resources, path, errors, ctx)
    _BEFORE_SECURITY(spec, path, errors, ctx)
    selector = get("nodeSelector")
    if selector:
        validate_labels(selector, path.child("nodeSelector"), errors)
    validate_pod_security(spec, path, errors, ctx)
    _AFTER_SECURITY(spec, path, errors, ctx)
    os = get("os")
    if os is not None:
        _os(os, spec, path, errors)
    group = get("schedulingGroup")
    if group is not None:
        _scheduling_group(group, path.child("schedulingGroup"), errors, ctx)
    _file_key_volumes(spec, path, errors, ctx)
