"""Changing the resources of a running pod (upstream: ``core/validation`` ValidatePodResize)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.each import elements, entries
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.features import gate
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.podspec import MIRROR
from kapi.resources.shared.qos import qos_class
from kapi.resources.shared.rules import Errors

_SPEC = Path("spec")
_RESIZED = ("cpu", "memory")
_ONLY = "only cpu and memory resources are mutable"


def keep_all_but_resources(new: list[Object], old: list[Object]) -> list[Object]:
    """The old containers with the new ones' resources and resize policies; the new ones where the names differ."""
    merged = []
    for container, before in elements(zip(new, old, strict=True)):
        if container.get("name") != before.get("name"):
            return new
        changed = {key: value for key, value in before.items() if key not in ("resources", "resizePolicy")}
        for key in ("resources", "resizePolicy"):
            if key in container:
                changed[key] = container[key]
        merged.append(changed)
    return merged


def prepare_resize(new: Object, old: Object) -> None:
    """Undoes, in place, all changes that a resize may not make."""
    spec, before = new["spec"], old["spec"]
    parts = ("containers", "initContainers")
    if any(len(spec.get(part) or ()) != len(before.get(part) or ()) for part in parts):
        return
    changed = dict(before)
    for part in parts:
        if spec.get(part):
            changed[part] = keep_all_but_resources(spec[part], before[part])
    if "resources" in spec:
        changed["resources"] = spec["resources"]
    else:
        changed.pop("resources", None)
    new["spec"] = changed


def _removed(new: Object | None, old: Object | None, part: str) -> bool:
    after, before = (new or {}).get(part) or {}, (old or {}).get(part) or {}
    return len(before) > len(after) or any(name not in after for name in elements(before))


def _without_resized(new: Object | None, old: Object | None) -> Object | None:
    """The resources with the old ones' CPU and memory, without claims, as upstream."""
    if new is None and old is None:
        return None
    result: Object = {}
    for part in ("limits", "requests"):
        after, before = (new or {}).get(part) or {}, (old or {}).get(part) or {}
        amounts = {name: amount for name, amount in entries(after) if name not in _RESIZED}
        amounts.update({name: before[name] for name in _RESIZED if name in before})
        if amounts:
            result[part] = amounts
    return result


def _munged(container: Object, old: Object) -> Object:
    return {**container, "resources": _without_resized(container.get("resources"), old.get("resources")) or {}}


def _plain(container: Object) -> Object:
    resources = {key: value for key, value in entries(container, "resources") if value}
    kept = {key: value for key, value in container.items() if value not in (None, [], "")}
    return {**kept, "resources": resources}


def _ordering(new: Object, old: Object, errors: Errors) -> bool:
    before = len(errors)
    for part in ("containers", "initContainers"):
        after, earlier = new.get(part) or [], old.get(part) or []
        if len(after) != len(earlier):
            errors.append(field.forbidden(_SPEC.child(part), f"{part} may not be added or removed on resize"))
            continue
        for i, container in enumerate(earlier):
            if after[i].get("name") != container.get("name"):
                text = f"{part} may not be renamed or reordered on resize"
                errors.append(field.forbidden(_SPEC.child(part).index(i).child("name"), text))
    return len(errors) == before


def _pod_level(new: Object, old: Object, errors: Errors) -> None:
    after, before = new.get("resources"), old.get("resources")
    path = _SPEC.child("resources")
    if before is not None and after is None:
        errors.append(field.forbidden(path, "pod-level resources cannot be removed"))
        return
    if before is not None:
        if _removed(after, before, "requests"):
            errors.append(field.forbidden(path.child("requests"), "pod-level resource requests cannot be removed"))
        if _removed(after, before, "limits"):
            errors.append(field.forbidden(path.child("limits"), "pod-level resource limits cannot be removed"))
    rest = _without_resized(after, before) or {}
    known = {key: value for key, value in entries(before) if value and key != "claims"}
    if rest != known or (after or {}).get("claims"):
        errors.append(field.forbidden(_SPEC, "only cpu and memory resources are mutable at pod-level"))


def _is_set(spec: Object) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _supported(old: Object) -> bool:
    """Whether the node supports resizing: it reports the resources of running containers then."""
    for entry in elements(old, "status", "containerStatuses"):
        if (entry.get("state") or {}).get("running") is not None:
            return entry.get("resources") is not None
    return True


def validate_pod_resize(new: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    """The rules for a resize, after those for any metadata and spec."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        errors[:] = [field.forbidden("", "static pods cannot be resized")]
        return
    spec, before = new["spec"], old["spec"]
    if (before.get("os") or {}).get("name") == "windows":
        errors[:] = [field.forbidden("", "windows pods cannot be resized")]
        return
    quality = (old.get("status") or {}).get("qosClass") or qos_class(before, ctx.pod_level_resources)
    if quality != qos_class(spec, ctx.pod_level_resources):
        shown = (new.get("status") or {}).get("qosClass", "")
        errors.append(field.invalid(_SPEC, shown, "Pod QOS Class may not change as a result of resizing"))
    if not _supported(old):
        errors.append(field.forbidden(_SPEC, "Pod running on node without support for resize"))
    if _is_set(spec) or _is_set(before):
        if not gate(ctx.features, "InPlacePodLevelResourcesVerticalScaling"):
            text = (
                "resize of pods with pod-level resources is forbidden when "
                "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
            )
            errors.append(field.forbidden("", text))
            return
        _pod_level(spec, before, errors)
    if (old.get("status") or {}).get("nodeAllocatableResourceClaimStatuses"):
        errors.append(field.forbidden(_SPEC, "pods with node allocatable resource claims cannot be resized"))
    if not _ordering(spec, before, errors):
        return
    initial = gate(ctx.features, "InPlacePodVerticalScalingInitContainers")
    _amounts(spec, before, errors, initial)
    _containers(spec, before, errors, initial)
    if errors:
        return
    checked = _is_set(spec) or _is_set(before)
    ignored = ("containers", "initContainers", "resources") if checked else ("containers", "initContainers")
    if {k: v for k, v in spec.items() if k not in ignored} != {k: v for k, v in before.items() if k not in ignored}:
        errors.append(field.forbidden(_SPEC, _ONLY))


def _amounts(spec: Object, before: Object, errors: Errors, initial: bool) -> None:
    for part in ("initContainers", "containers"):
        for i, container in enumerate(elements(before, part)):
            if part == "initContainers" and not initial and container.get("restartPolicy") != "Always":
                continue
            path = _SPEC.child(part).index(i).child("resources")
            after = spec[part][i].get("resources")
            for kind in ("requests", "limits"):
                if _removed(after, container.get("resources"), kind):
                    text = f"resource {kind} cannot be removed"
                    errors.append(field.forbidden(path.child(kind), text))


def _containers(spec: Object, before: Object, errors: Errors, initial: bool) -> None:
    for i, old in enumerate(elements(before, "containers")):
        if _plain(_munged(spec["containers"][i], old)) != _plain(old):
            errors.append(field.forbidden(_SPEC, _ONLY))
    for i, old in enumerate(elements(before, "initContainers")):
        container, here = spec["initContainers"][i], _SPEC.child("initContainers").index(i)
        sidecar = container.get("restartPolicy") == "Always"
        modified = _plain(container) != _plain(old)
        if not sidecar and not initial:
            if modified:
                errors.append(field.forbidden(_SPEC, "resources for non-sidecar init containers are immutable"))
            continue
        if _plain(_munged(container, old)) != _plain(old):
            text = "only cpu and memory resources for init or sidecar containers are mutable"
            errors.append(field.forbidden(here, text))
        if modified and not sidecar:
            for policy in elements(container, "resizePolicy"):
                if policy.get("restartPolicy") == "RestartContainer":
                    text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                    errors.append(field.forbidden(here, text))
