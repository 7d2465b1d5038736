"""Validation of updates of pods and of their ephemeral containers (upstream: ``core/validation`` ValidatePodUpdate)."""

from __future__ import annotations

from kapi.machinery import field, golang
from kapi.machinery.each import elements, entries
from kapi.machinery.field import Path
from kapi.machinery.tree import Object, equal
from kapi.resources.shared.affinity import REQUIRED, validate_tolerations
from kapi.resources.shared.internal import difference, internal, plain
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.podspec import MIRROR
from kapi.resources.shared.podtemplate import APP_ARMOR, validate_pod_annotations
from kapi.resources.shared.rules import Errors

_SPEC = Path("spec")
_MAX_INT32 = 2147483647
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def validate_annotation_changes(new: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    """Mirror and AppArmor annotations may not be added, removed or changed."""
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
    """Whether the containers are the same ones; their images are checked when they are."""
    if len(new) != len(old):
        errors.append(field.forbidden(path, "pod updates may not add or remove containers"))
        return False
    for i, container in enumerate(new):
        image = container.get("image", "")
        if not image:
            errors.append(field.required(path.index(i).child("image")))
        if image != image.strip():
            text = "must not have leading or trailing whitespace"
            errors.append(field.invalid(path.index(i).child("image"), image, text))
    return True


def _deadline(new: Object, old: Object, errors: Errors) -> bool:
    """A deadline may be set and brought forward; False stops the validation as upstream does."""
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
        text = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(field.forbidden(path, text))
        return
    validate_tolerations(new, path, errors, ctx)


def _gates(new: list[Object], old: list[Object], errors: Errors) -> None:
    known = {gate.get("name", "") for gate in elements(old)}
    for name, i in entries({gate.get("name", ""): i for i, gate in enumerate(elements(new))}):
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
    """While a scheduling gate holds a pod, its node selector and affinity may be narrowed."""
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
    """The rules for changes, after those for any metadata and spec."""
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


#: structs behind pointers: there is a difference between an empty one and none
_STRUCTS = frozenset({"affinity", "dnsConfig", "os", "resources", "schedulingGroup", "securityContext"})


def _comparable(spec: Object) -> Object:
    """The spec without empty lists and maps, which equal absent ones; decoding has dropped empty scalars."""
    return {
        key: value
        for key, value in spec.items()
        if value is not None and (key in _STRUCTS or (value != [] and value != {}))
    }


def validate_ephemeral_update(new: Object, old: Object, errors: Errors, ctx: PodOptions) -> None:
    """Ephemeral containers may be added, but not changed or removed."""
    validate_annotation_changes(new, old, errors, ctx)
    if MIRROR in (old["metadata"].get("annotations") or {}):
        errors[:] = [field.forbidden("", "static pods do not support ephemeral containers")]
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
