"""Validation of updates of pods, of their ephemeral containers, and of the resources of a running pod.

Upstream: ``core/validation`` (ValidatePodUpdate, ValidatePodResize).
"""

from __future__ import annotations

from kapi.machinery import field, golang
from kapi.machinery.each import elements, entries
from kapi.machinery.field import Path
from kapi.machinery.tree import Object, equal
from kapi.resources.shared.affinity import REQUIRED, validate_tolerations
from kapi.resources.shared.compute import qos_class
from kapi.resources.shared.containers import validate_image
from kapi.resources.shared.features import gate
from kapi.resources.shared.internal import difference, internal, plain
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.podspec import MIRROR
from kapi.resources.shared.podtemplate import APP_ARMOR, validate_pod_annotations
from kapi.resources.shared.rules import Errors, need

_EMPTY = "[]"  # Go's form of a path without a name
_SPEC = Path("spec")
_MAX_INT32 = 2147483647
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
#: structs behind pointers: an empty struct differs from a missing one
_STRUCTS = frozenset({"affinity", "dnsConfig", "os", "resources", "schedulingGroup", "securityContext"})
_RESIZED = ("cpu", "memory")
_ONLY = "only cpu and memory resources are mutable"


def validate_annotation_changes(new: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    """Checks that mirror and AppArmor annotations are not added, removed or changed."""
    path = Path("metadata").child("annotations")
    after, before = new["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    for key, value in before.items():
        if after.get(key) == value:
            continue
        if key.startswith(APP_ARMOR):
            errors.append(field.forbidden(path.key(key), "may not remove or update AppArmor annotations"))
        if key == MIRROR:
            errors.append(field.forbidden(path.key(key), "may not remove or update mirror pod annotation"))
    for key in after:
        if key in before:
            continue
        if key.startswith(APP_ARMOR):
            errors.append(field.forbidden(path.key(key), "may not add AppArmor annotations"))
        if key == MIRROR:
            errors.append(field.forbidden(path.key(key), "may not add mirror pod annotation"))
    if after:
        validate_pod_annotations(after, new["spec"], path, errors, ctx)


def _containers(new: list[Object], old: list[Object], path: Path, errors: Errors) -> bool:
    """Whether the containers are the same; if they are, their images are checked."""
    if len(new) != len(old):
        errors.append(field.forbidden(path, "pod updates may not add or remove containers"))
        return False
    for i, container in enumerate(new):
        need(container.get("image"), path.index(i), errors, "image")
        validate_image(container, path.index(i), errors)
    return True


def _deadline(new: Object, old: Object, errors: Errors) -> bool:
    """Checks that a deadline is only set or shortened; False ends the validation, as upstream."""
    after, before, path = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"), _SPEC
    here = path.child("activeDeadlineSeconds")
    if after is not None:
        if not 0 <= after <= _MAX_INT32:
            errors.append(field.invalid(here, after, f"must be between 0 and {_MAX_INT32}, inclusive"))
            return False
        if before is not None and before < after:
            errors.append(field.invalid(here, after, "must be less than or equal to previous value"))
            return False
    elif before is not None:
        errors.append(field.invalid(here, None, "must not update from a positive integer to nil value"))
    return True


def _tolerations(new: list[Object], old: list[Object], errors: Errors, ctx: PodOptions) -> None:
    path = _SPEC.child("tolerations")

    def bare(toleration: Object) -> frozenset[tuple[str, str]]:
        return frozenset(
            (key, value) for key, value in toleration.items() if key != "tolerationSeconds" and value != ""
        )

    now = {bare(toleration) for toleration in elements(new)}
    if any(bare(toleration) not in now for toleration in elements(old)):
        errors.append(field.forbidden(path, "existing toleration can not be modified except its tolerationSeconds"))
        return
    validate_tolerations(new, path, errors, ctx)


def _gates(new: list[Object], old: list[Object], errors: Errors) -> None:
    known = {held.get("name", "") for held in elements(old)}
    for name, i in entries({held.get("name", ""): i for i, held in enumerate(elements(new))}):
        if name not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.append(field.forbidden(_SPEC.child("schedulingGates").index(i).child("name"), text))


def _node_selector(new: Object, old: Object, errors: Errors) -> None:
    if any(new.get(key) != value for key, value in entries(old)):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(field.invalid(_SPEC.child("nodeSelector"), plain(new) or None, text))


def _only_adds(new: Object, old: Object) -> bool:
    """Whether a node selector term only got stricter."""
    parts = ("matchExpressions", "matchFields")
    if not any(old.get(part) for part in parts) and any(new.get(part) for part in parts):
        return False
    return all(equal((new.get(part) or [])[: len(old.get(part) or [])], old.get(part) or []) for part in parts)


def _node_affinity(new: Object | None, old: Object | None, errors: Errors) -> None:
    required = (old or {}).get(REQUIRED)
    if required is None:
        return
    path = _SPEC.child("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    before = required.get("nodeSelectorTerms") or []
    after = ((new or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    if before and len(before) != len(after):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.append(field.invalid(path, internal("NodeSelectorTerm", after) or None, text))
        return
    for i, term in enumerate(elements(before)):
        if not _only_adds(after[i], term):
            value = internal("NodeSelectorTerm", after[i])
            errors.append(field.invalid(path.index(i), value, "only additions are allowed (no mutations or deletions)"))


def _loosen_gated(munged: Object, old: Object, errors: Errors) -> None:
    """Lets the node selector and affinity become stricter while a scheduling gate holds the pod."""
    if not equal(munged.get("nodeSelector") or {}, old.get("nodeSelector") or {}):
        _node_selector(munged.get("nodeSelector") or {}, old.get("nodeSelector") or {}, errors)
        _restore(munged, old, "nodeSelector")
    before = (old.get("affinity") or {}).get("nodeAffinity")
    after = (munged.get("affinity") or {}).get("nodeAffinity")
    if equal(before, after):
        return
    _node_affinity(after, before, errors)
    affinity = munged.get("affinity")
    if affinity is None:
        munged["affinity"] = {"nodeAffinity": before}
        return
    others = {key: value for key, value in affinity.items() if key != "nodeAffinity"}
    if old.get("affinity") is None and not others:
        munged.pop("affinity")
    else:
        munged["affinity"] = others if before is None else {**others, "nodeAffinity": before}


def _restore(munged: Object, old: Object, name: str) -> None:
    if name in old:
        munged[name] = old[name]
    else:
        munged.pop(name, None)


def _with_images(new: list[Object], old: list[Object]) -> list[Object]:
    return [
        {**container, "image": before.get("image", "")} for container, before in elements(zip(new, old, strict=True))
    ]


def validate_pod_update(new: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    """The rules for changes, after the rules for all metadata and specs."""
    spec, before = new["spec"], old["spec"]
    validate_annotation_changes(new, old, errors, ctx)
    for part in ("containers", "initContainers"):
        if not _containers(spec.get(part) or [], before.get(part) or [], _SPEC.child(part), errors):
            return
    if not _deadline(spec, before, errors):
        return
    _tolerations(spec.get("tolerations") or [], before.get("tolerations") or [], errors, ctx)
    _gates(spec.get("schedulingGates") or [], before.get("schedulingGates") or [], errors)
    if equal(spec, before):
        return
    munged = dict(spec)
    for part in ("containers", "initContainers"):
        if spec.get(part):
            munged[part] = _with_images(spec[part], before[part])
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _restore(munged, before, name)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        _restore(munged, before, "terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        _loosen_gated(munged, before, errors)
    if not equal(_comparable(munged), _comparable(before)):
        text = f"pod updates may not change fields other than {_UPDATABLE}\n{difference('PodSpec', before, munged)}"
        errors.append(field.forbidden(_SPEC, text))


def _comparable(spec: Object) -> Object:
    """The spec without empty lists and maps, which equal absent ones; decoding has dropped empty scalars."""
    return {
        key: value
        for key, value in spec.items()
        if value is not None and (key in _STRUCTS or (value != [] and value != {}))
    }


def validate_ephemeral_update(new: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    """Checks that ephemeral containers are only added, not changed or removed."""
    validate_annotation_changes(new, old, errors, ctx)
    if MIRROR in (old["metadata"].get("annotations") or {}):
        errors[:] = [field.forbidden(_EMPTY, "static pods do not support ephemeral containers")]
        return
    path = _SPEC.child("ephemeralContainers")
    now = {container.get("name", ""): container for container in elements(new["spec"], "ephemeralContainers")}
    for container in elements(old["spec"], "ephemeralContainers"):
        name = container.get("name", "")
        if name not in now:
            text = f"existing ephemeral containers {golang.quote(name)} may not be removed\n"
            errors.append(field.forbidden(path, text))
        elif now[name] != container:
            diff = difference("EphemeralContainer", container, now[name])
            text = f"existing ephemeral containers {golang.quote(name)} may not be changed\n{diff}"
            errors.append(field.forbidden(path, text))


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
    """Whether the node supports resizing: then it reports the resources of running containers."""
    for entry in elements(old, "status", "containerStatuses"):
        if (entry.get("state") or {}).get("running") is not None:
            return entry.get("resources") is not None
    return True


def validate_pod_resize(new: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    """The rules for a resize, after the rules for all metadata and specs."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        errors[:] = [field.forbidden(_EMPTY, "static pods cannot be resized")]
        return
    spec, before = new["spec"], old["spec"]
    if (before.get("os") or {}).get("name") == "windows":
        errors[:] = [field.forbidden(_EMPTY, "windows pods cannot be resized")]
        return
    quality = (old.get("status") or {}).get("qosClass") or qos_class(before, ctx.pod_level_resources)
    if quality != qos_class(spec, ctx.pod_level_resources):
        shown = (new.get("status") or {}).get("qosClass", "")
        errors.append(field.invalid(_SPEC, shown, "Pod QOS Class may not change as a result of resizing"))
    if not _supported(old):
        errors.append(field.forbidden(_SPEC, "Pod running on node without support for resize"))
    if _is_set(spec) or _is_set(before):
        if not gate(ctx, "InPlacePodLevelResourcesVerticalScaling"):
            text = (
                "resize of pods with pod-level resources is forbidden when "
                "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
            )
            errors.append(field.forbidden(_EMPTY, text))
            return
        _pod_level(spec, before, errors)
    if (old.get("status") or {}).get("nodeAllocatableResourceClaimStatuses"):
        errors.append(field.forbidden(_SPEC, "pods with node allocatable resource claims cannot be resized"))
    if not _ordering(spec, before, errors):
        return
    initial = gate(ctx, "InPlacePodVerticalScalingInitContainers")
    _amounts(spec, before, errors, initial)
    _resized_containers(spec, before, errors, initial)
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
                    errors.append(field.forbidden(path.child(kind), f"resource {kind} cannot be removed"))


def _resized_containers(spec: Object, before: Object, errors: Errors, initial: bool) -> None:
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
