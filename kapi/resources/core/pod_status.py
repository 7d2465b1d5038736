"""The status of a pod, which the node and the scheduler write (upstream: ``core/validation`` ValidatePodStatusUpdate)."""

from __future__ import annotations

from kapi.machinery import field, quantities
from kapi.machinery.each import each, each_of, elements, entries
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.core.pod_update import validate_annotation_changes
from kapi.resources.shared.addresses import check_ip_legacy, family_of
from kapi.resources.shared.features import gate
from kapi.resources.shared.gated import drop_disabled, gated
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_immutable
from kapi.resources.shared.names import is_dns1123_label, is_group_id, is_qualified_name, is_user_id, subdomain_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.resource_names import is_native
from kapi.resources.shared.rules import Errors, distinct, need, not_supported, report

_STATUS = Path("status")
_SYSTEM = ("PodScheduled", "Ready", "Initialized")
_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_NOT_NEGATIVE = "must be a non-negative integer"
_STATE = "may not be transitioned to non-terminated state"


def _conditions(conditions: list[Object], errors: Errors) -> None:
    path = _STATUS.child("conditions")
    for i, condition in enumerate(conditions):
        generation, kind = condition.get("observedGeneration", 0), condition.get("type", "")
        if generation < 0:
            errors.append(field.invalid(path.index(i).child("observedGeneration"), generation, _NOT_NEGATIVE))
        for text in is_qualified_name(kind) if kind not in _SYSTEM else ():
            errors.append(field.invalid(path.index(i).child("Type"), kind, text))


def _should_restart(container: Object, spec: Object, code: int) -> bool:
    policy = container.get("restartPolicy")
    if policy is not None:
        for rule in elements(container, "restartPolicyRules"):
            codes = rule.get("exitCodes")
            if codes is None:
                continue
            inside = code in (codes.get("values") or ())
            if inside == (codes.get("operator") == "In"):
                return True
        if policy in ("Always", "OnFailure", "Never"):
            return bool(policy == "Always" or (policy == "OnFailure" and code != 0))
    policy = spec.get("restartPolicy")
    return policy != "Never" and (policy != "OnFailure" or code != 0)


def _restarts_all(spec: Object) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for part in ("initContainers", "containers")
        for container in elements(spec, part)
        for rule in elements(container, "restartPolicyRules")
    )


def _transitions(new: Object, old: Object, spec: Object, name: str, part: str, errors: Errors, ctx: PodOptions) -> None:
    """Checks that a terminated container runs again only if its restart policy allows it."""
    containers = {container.get("name", ""): container for container in elements(spec, part)}
    running = {
        after.get("name") for after in elements(new, name) if (after.get("state") or {}).get("terminated") is None
    }
    rules = gate(ctx, "ContainerRestartRules")
    for before, here in each(_STATUS.child(name), old):
        ended = (before.get("state") or {}).get("terminated")
        if ended is None or before.get("name") not in running:
            continue
        container = containers.get(before.get("name", ""))
        if part and not rules:  # the pod's policy applies to all containers except sidecars
            sidecar = part == "initContainers" and container is not None and container.get("restartPolicy") == "Always"
            container = {"restartPolicy": "Always"} if sidecar else {}
        if container is None or not _should_restart(container, spec, ended.get("exitCode", 0)):
            errors.append(field.forbidden(here.child("state"), _STATE))


def _claims(status: Object, spec: Object, errors: Errors) -> None:
    path = _STATUS.child("resourceClaimStatuses")
    known = {claim.get("name", "") for claim in elements(spec, "resourceClaims")}
    seen: set[str] = set()
    for entry, here in each_of(path, status.get("resourceClaimStatuses")):
        name, claim = entry.get("name", ""), entry.get("resourceClaimName")
        if name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(field.invalid(here.child("name"), name, text))
        distinct(name, seen, here, errors, "name")
        report(subdomain_name(claim) if claim is not None else (), claim, here, errors, "resourceClaimName")


def _extended_claims(status: Object, spec: Object, errors: Errors) -> None:
    entry = status.get("extendedResourceClaimStatus")
    if entry is None:
        return
    path = _STATUS.child("extendedResourceClaimStatus")
    containers = {
        container.get("name", ""): container
        for part in ("initContainers", "containers")
        for container in elements(spec, part)
    }
    mappings = entry.get("requestMappings") or []
    here = path.child("requestMappings")
    need(mappings, here, errors, detail="at least one request mapping is required")
    seen = set()
    for i, mapping in enumerate(mappings):
        name, resource = mapping.get("containerName", ""), mapping.get("resourceName", "")
        request = mapping.get("requestName", "")
        if name not in containers:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(field.invalid(here.index(i).child("containerName"), name, text))
        elif resource not in ((containers[name].get("resources") or {}).get("requests") or {}):
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            errors.append(field.invalid(here.index(i).child("resourceName"), resource, text))
        report(is_dns1123_label(request), request, path, errors, "requestName")
        if (name, resource, request) in seen:
            for key, value in (("containerName", name), ("resourceName", resource), ("requestName", request)):
                errors.append(field.duplicate(here.index(i).child(key), value))
        seen.add((name, resource, request))
    claim = entry.get("resourceClaimName", "")
    need(claim, path, errors, "resourceClaimName")
    report(subdomain_name(claim) if claim else (), claim, path, errors, "resourceClaimName")


def _node_claims(status: Object, spec: Object, errors: Errors) -> None:
    known = {entry.get("resourceClaimName") for entry in elements(spec, "resourceClaims")}
    known |= {entry.get("resourceClaimName") for entry in elements(status, "resourceClaimStatuses")}
    for entry, place in each(_STATUS.child("nodeAllocatableResourceClaimStatuses"), status):
        path, claim = place, entry.get("resourceClaimName", "")
        need(claim, path, errors, "resourceClaimName", detail="must not be empty")
        if claim not in known:
            errors.append(field.invalid(path.child("resourceClaimName"), claim, "no mapping found in pod reference"))
        for part in ("containers", "resources"):
            need(entry.get(part), path, errors, part, detail="must not be empty")
        for name, quantity in entries(entry, "resources"):
            here = path.child("resources").key(name)
            if not is_native(name):
                errors.append(field.invalid(here, name, "must be a node allocatable resource name"))
            if quantities.parse(quantity).value < 0:
                errors.append(field.invalid(here, quantity, "must be non-negative"))


def _addresses(new: list[Object], old: list[Object], name: str, kind: str, errors: Errors, ctx: PodOptions) -> None:
    path = _STATUS.child(name)
    accepted = {entry.get("ip", "") for entry in elements(old)}
    for i, entry in enumerate(elements(new)):
        errors.extend(check_ip_legacy(path.index(i), entry.get("ip", ""), ctx, accepted))
    if len(new) > 1:
        families = [family_of(entry.get("ip", "")) for entry in elements(new)]
        if "unknown" in families:
            i = families.index("unknown")
            text = f"failed to check for dual stack with error:invalid IP[{i}]: {new[i].get('ip', '')}"
            errors.append(field.internal(path, text))
        if set(families) != {"IPv4", "IPv6"} or len(new) > 2:
            text = "may specify no more than one IP for each IP family"
            errors.append(field.invalid(path, internal(kind, new), text))


def _host_addresses(status: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    addresses = status.get("hostIPs") or []
    if not addresses:
        return
    first = addresses[0].get("ip", "")
    if status.get("hostIP", "") != first:
        place = _STATUS.child("hostIPs").index(0).child("ip")
        errors.append(field.invalid(place, first, "must be equal to `hostIP`"))
    _addresses(addresses, old.get("hostIPs") or [], "hostIPs", "HostIP", errors, ctx)


def _users(status: Object, spec: Object, errors: Errors) -> None:
    windows = (spec.get("os") or {}).get("name") == "windows"
    for name in _LISTS:
        for entry, here in each(_STATUS.child(name), status):
            linux = (entry.get("user") or {}).get("linux")
            if linux is None:
                continue
            path = here.child("user", "linux")
            if windows:
                errors.append(field.forbidden(path, "cannot be set for a windows pod"))
                continue
            for part, rule in (("uid", is_user_id), ("gid", is_group_id)):
                report(rule(linux.get(part, 0)), linux.get(part, 0), path, errors, part)
            for group, here in each(path.child("supplementalGroups"), linux):
                report(is_group_id(group), group, here, errors)


def _allocated(status: Object, spec: Object, errors: Errors) -> None:
    for name, part in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        containers = {container.get("name", ""): container for container in elements(spec, part)}
        for entry, here in each(_STATUS.child(name), status):
            container = containers.get(entry.get("name", ""))
            for j, allocated in enumerate(elements(entry, "allocatedResourcesStatus")):
                path = here.child("allocatedResourcesStatus").index(j)
                if container is not None:
                    _known_resource(allocated.get("name", ""), container.get("resources") or {}, path, errors)
                _health(allocated.get("resources") or [], path.child("resources"), errors)
    for entry, here in each(_STATUS.child("ephemeralContainerStatuses"), status):
        if entry.get("allocatedResourcesStatus"):
            path = here.child("allocatedResourcesStatus")
            errors.append(field.forbidden(path, "must not be specified in container status"))


def _known_resource(name: str, resources: Object, path: Path, errors: Errors) -> None:
    if name.startswith("claim:"):
        known = {
            "claim:" + claim.get("name", "") + ("/" + claim["request"] if claim.get("request") else "")
            for claim in elements(resources, "claims")
        }
        text = (
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
        )
    else:
        known = set(resources.get("requests") or ())
        text = "must match one of the container's resource requests"
    if name not in known:
        errors.append(field.invalid(path.child("name"), name, text))


def _health(resources: list[Object], path: Path, errors: Errors) -> None:
    seen = set()
    for i, resource in enumerate(resources):
        health, message = resource.get("health", ""), resource.get("message")
        if health not in ("Healthy", "Unhealthy", "Unknown"):
            errors.append(not_supported(path.index(i).child("health"), health, ("Healthy", "Unhealthy", "Unknown")))
        if message is not None and not message:
            errors.append(field.required(path.index(i).child("message"), "must be non-empty if specified"))
        elif message is not None and len(message.encode()) > 1024:
            errors.append(field.too_long(path.index(i).child("message"), 1024))
        key = resource.get("resourceID", "")
        if key in seen:
            errors.append(field.duplicate(path.index(i).child("resourceID"), key))
        seen.add(key)


_ENTRY = f"{'|'.join(_LISTS)}.*"
_GATED = (
    gated("DRANodeAllocatableResources", "nodeAllocatableResourceClaimStatuses"),
    gated("ImageVolumeWithDigest", f"{_ENTRY}.volumeMounts.*.volumeStatus"),
    gated("DRAExtendedResource", "extendedResourceClaimStatus"),
    gated("InPlacePodLevelResourcesVerticalScaling", "resources", "allocatedResources"),
    gated("ResourceHealthStatus", f"{_ENTRY}.allocatedResourcesStatus", kept=False),
    gated("ResourceHealthStatusMessage", f"{_ENTRY}.allocatedResourcesStatus.*.resources.*.message", kept=False),
)


def drop_disabled_status(status: Object, before: Object, ctx: object) -> None:
    """Drops, in place, fields whose feature gate is off, unless they are stored already."""
    drop_disabled(_GATED, status, before, ctx)


def _volumes(status: Object, errors: Errors) -> None:
    for name in _LISTS:
        for entry, place in each(_STATUS.child(name), status):
            for j, mount in enumerate(elements(entry, "volumeMounts")):
                image = (mount.get("volumeStatus") or {}).get("image")
                if image is None:
                    continue
                path = place.child("volumeMounts").index(j)
                here = path.child("volumeStatus", "imageVolumeStatus", "imageRef")
                if (
                    need(image.get("imageRef"), here, errors, detail="imageRef must not be empty")
                    and len(image["imageRef"].encode()) > 256
                ):
                    errors.append(field.too_long(here, 256))


def validate_pod_status(new: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    """The rules for the status, after the rules for changed metadata.  The old pod's spec has the restart policies."""
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new["spec"]
    validate_annotation_changes(new, old, errors, ctx)
    _conditions(status.get("conditions") or [], errors)
    nominated, here = status.get("nominatedNodeName", ""), _STATUS.child("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        report(subdomain_name(nominated), nominated, here, errors)
        if gate(ctx, "ClearingNominatedNodeNameAfterBinding") and old["spec"].get("nodeName"):
            errors.append(field.forbidden(here, "may not be set on pods that are already bound to a node"))
    generation = status.get("observedGeneration", 0)
    if generation < 0:
        errors.append(field.invalid(_STATUS.child("observedGeneration"), generation, _NOT_NEGATIVE))
    validate_immutable(status.get("qosClass", ""), before.get("qosClass", ""), _STATUS.child("qosClass"), errors)
    gates = ("ContainerRestartRules", "RestartAllContainersOnContainerExits")
    if not (all(gate(ctx, name) for name in gates) and _restarts_all(old["spec"])):
        for name, part in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
            _transitions(status, before, old["spec"], name, part, errors, ctx)
    _transitions(status, before, {}, "ephemeralContainerStatuses", "", errors, ctx)
    _claims(status, spec, errors)
    _extended_claims(status, spec, errors)
    _node_claims(status, spec, errors)
    _addresses(status.get("podIPs") or [], before.get("podIPs") or [], "podIPs", "PodIP", errors, ctx)
    _host_addresses(status, before, errors, ctx)
    _users(status, spec, errors)
    _allocated(status, spec, errors)
    if gate(ctx, "ImageVolumeWithDigest"):
        _volumes(status, errors)
