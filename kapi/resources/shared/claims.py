"""The spec of a PersistentVolumeClaim, as an object and as a template (upstream: ``core/validation`` ValidatePersistentVolumeClaimSpec)."""

from __future__ import annotations

from typing import Any

from kapi.machinery import field
from kapi.machinery.field import Path
from kapi.resources.shared import quantities
from kapi.resources.shared.compute import validate_quantity
from kapi.resources.shared.metadata import validate_annotations, validate_labels
from kapi.resources.shared.names import is_dns1123_subdomain, label_name, subdomain_name
from kapi.resources.shared.rules import Errors, not_supported
from kapi.resources.shared.selectors import validate_label_selector

Object = dict[str, Any]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def validate_claim_spec(
    spec: Object,
    path: Path,
    errors: Errors,
    *,
    allow_invalid_selector_values: bool = False,
    allow_invalid_api_group: bool = False,
) -> None:
    modes = spec.get("accessModes") or []
    if not modes:
        errors.append(field.required(path.child("accessModes"), "at least 1 access mode is required"))
    selector = spec.get("selector")
    if selector is not None:
        validate_label_selector(
            selector, path.child("selector"), errors, allow_invalid_values=allow_invalid_selector_values
        )
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.append(not_supported(path.child("accessModes"), mode, ACCESS_MODES))
    known = [mode for mode in modes if mode in ACCESS_MODES]
    if "ReadWriteOncePod" in known and any(mode != "ReadWriteOncePod" for mode in known):
        text = "may not use ReadWriteOncePod with other access modes"
        errors.append(field.forbidden(path.child("accessModes"), text))
    _storage(spec, path.child("resources").key("storage"), errors)
    _class_name(spec.get("storageClassName"), path.child("storageClassName"), errors)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(path.child("volumeMode"), mode, VOLUME_MODES))
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _data_source(source, path.child("dataSource"), errors, allow_invalid_api_group)
    if ref is not None:
        _data_source(ref, path.child("dataSourceRef"), errors, allow_invalid_api_group)
        namespace = ref.get("namespace")
        for text in label_name(namespace) if namespace else ():
            errors.append(field.invalid(path.child("dataSourceRef", "namespace"), namespace, text))
    if source is not None and ref is not None:
        names = ("apiGroup", "kind", "name")
        if ref.get("namespace"):
            text = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(field.invalid(path, {}, text))
        elif any(source.get(name) != ref.get(name) for name in names):
            errors.append(field.invalid(path, {}, "must match dataSourceRef"))
    _class_name(spec.get("volumeAttributesClassName"), path.child("volumeAttributesClassName"), errors)


def _storage(spec: Object, path: Path, errors: Errors) -> None:
    requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if requested is None:
        errors.append(field.required(path))
    elif quantities.parse(requested).value <= 0:
        errors.append(field.invalid(path, requested, "must be greater than zero"))
    else:
        validate_quantity("storage", requested, path, errors)


def _class_name(name: str | None, path: Path, errors: Errors) -> None:
    for text in subdomain_name(name) if name else ():
        errors.append(field.invalid(path, name, text))


def _data_source(source: Object, path: Path, errors: Errors, allow_invalid_api_group: bool) -> None:
    for name in ("name", "kind"):
        if not source.get(name):
            errors.append(field.required(path.child(name)))
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(field.invalid(path, kind, text))
    if group and not allow_invalid_api_group:
        for text in is_dns1123_subdomain(group):
            errors.append(field.invalid(path.child("apiGroup"), group, text))


def validate_claim_template(template: Object, path: Path, errors: Errors) -> None:
    """A claim inside a pod's ephemeral volume: only labels and annotations beside the spec."""
    metadata = template.get("metadata") or {}
    here = path.child("metadata")
    validate_annotations(metadata.get("annotations") or {}, here.child("annotations"), errors)
    validate_labels(metadata.get("labels") or {}, here.child("labels"), errors)
    for name in _OTHER_METADATA:
        if metadata.get(name):
            shown = "uID" if name == "uid" else name
            errors.append(field.forbidden(here.child(shown), "cannot be set"))
    validate_claim_spec(template.get("spec") or {}, path.child("spec"), errors)


#: in the order of ObjectMeta's fields; upstream writes "uID" since it lowers only the first letter
_OTHER_METADATA = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip


def default_claim_spec(spec: Object) -> None:
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
