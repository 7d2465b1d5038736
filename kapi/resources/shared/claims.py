"""The spec of a volume claim, and its templates in pods and stateful sets.

Upstream: ``pkg/apis/core/validation`` (ValidatePersistentVolumeClaimSpec, ValidatePersistentVolumeClaimTemplate),
``pkg/api/persistentvolumeclaim``.
"""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.quantities import compare
from kapi.machinery.tree import Object
from kapi.resources.shared.metadata import validate_annotations, validate_labels
from kapi.resources.shared.names import is_dns1123_subdomain, label_name, subdomain_name
from kapi.resources.shared.persistent_volumes import validate_access_modes
from kapi.resources.shared.resource_names import round_resource_list
from kapi.resources.shared.rules import Errors, check, enum, need
from kapi.resources.shared.selectors import validate_label_selector

_SNAPSHOT = ("VolumeSnapshot", "snapshot.storage.k8s.io")
#: in the order of ObjectMeta's fields; upstream lowers only the first letter of Go's name, hence "uID"
_OTHER_METADATA = (
    ("name", "name"), ("generateName", "generateName"), ("namespace", "namespace"), ("selfLink", "selfLink"),
    ("uid", "uID"), ("resourceVersion", "resourceVersion"), ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"), ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"), ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"), ("managedFields", "managedFields"),
)  # fmt: skip


def default_claim_spec(spec: Object) -> None:
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.setdefault("resources", {})
    round_resource_list(resources.get("requests"))
    round_resource_list(resources.get("limits"))


def normalize_data_sources(spec: Object, old: Object | None, cross_namespace: bool = False) -> None:
    """Drops a data source of an unknown kind, and makes ``dataSource`` and ``dataSourceRef`` equal.

    ``cross_namespace``: a new reference may name a namespace.
    """
    reference = spec.get("dataSourceRef")
    in_use = old is not None and old.get("dataSourceRef") is not None
    if reference is not None and reference.get("namespace") and not in_use and not cross_namespace:
        spec.pop("dataSourceRef")
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    had_source = old is not None and (old.get("dataSource") is not None or old.get("dataSourceRef") is not None)
    if not had_source and reference is None and not _is_claim_or_snapshot(source):
        spec.pop("dataSource", None)
        source = None
    if source is not None and reference is None:
        spec["dataSourceRef"] = {name: source[name] for name in ("apiGroup", "kind", "name") if name in source}
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: reference[name] for name in ("apiGroup", "kind", "name") if name in reference}


def _is_claim_or_snapshot(source: Object | None) -> bool:
    if source is None:
        return False
    named = (source.get("kind", ""), source.get("apiGroup") or "")
    return named in (("PersistentVolumeClaim", ""), _SNAPSHOT)


def _had_group(old: Object | None) -> bool:
    return any(((old or {}).get(part) or {}).get("apiGroup") is not None for part in ("dataSource", "dataSourceRef"))


def _source(source: Object, path: Path, any_group: bool, errors: Errors) -> None:
    kind, group = source.get("kind") or "", source.get("apiGroup") or ""
    need(source.get("name"), path, errors, "name")
    need(kind, path, errors, "kind")
    if not group and kind != "PersistentVolumeClaim":
        errors.append(invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    if group and not any_group:
        check(is_dns1123_subdomain)(group, path.child("apiGroup"), errors, None)
    if source.get("namespace"):
        check(label_name)(source["namespace"], path.child("namespace"), errors, None)


def validate_claim_spec(spec: Object, path: Path, errors: Errors, *, old_spec: Object | None = None) -> None:
    """Appends the errors of a claim's spec; values that ``old_spec`` has already may stay."""
    modes = spec.get("accessModes") or []
    need(modes, path, errors, "accessModes", detail="at least 1 access mode is required")
    if spec.get("selector") is not None:
        found: Errors = []
        validate_label_selector((old_spec or {}).get("selector"), Path(), found)
        here = path.child("selector")
        validate_label_selector(spec["selector"], here, errors, allow_invalid_values=bool(found))
    validate_access_modes(modes, path.child("accessModes"), errors)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    here = path.child("resources").key("storage")
    if storage is None:
        errors.append(required(here))
    elif compare(storage, "0") <= 0:
        errors.append(invalid(here, storage, "must be greater than zero"))
    if spec.get("storageClassName"):
        check(subdomain_name)(spec["storageClassName"], path.child("storageClassName"), errors, None)
    if spec.get("volumeMode") is not None:
        enum("Block", "Filesystem")(spec["volumeMode"], path.child("volumeMode"), errors, None)
    _sources(spec, path, _had_group(old_spec), errors)
    if spec.get("volumeAttributesClassName"):
        here = path.child("volumeAttributesClassName")
        check(subdomain_name)(spec["volumeAttributesClassName"], here, errors, None)


def _sources(spec: Object, path: Path, any_group: bool, errors: Errors) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _source(source, path.child("dataSource"), any_group, errors)
    if reference is not None:
        _source(reference, path.child("dataSourceRef"), any_group, errors)
    if source is None or reference is None:
        return
    # upstream shows the path object itself, which has no exported fields
    if reference.get("namespace"):
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))


def validate_template_metadata(metadata: Object, path: Path, errors: Errors) -> None:
    """Checks that a template's metadata has only labels and annotations."""
    validate_annotations(metadata.get("annotations") or {}, path.child("annotations"), errors)
    validate_labels(metadata.get("labels") or {}, path.child("labels"), errors)
    for name, shown in _OTHER_METADATA:
        value = metadata.get(name)
        if value or (value is not None and name == "deletionGracePeriodSeconds"):  # a pointer: 0 is set
            errors.append(field.forbidden(path.child(shown), "cannot be set"))


def validate_claim_template(template: Object, path: Path, errors: Errors) -> None:
    validate_template_metadata(template.get("metadata") or {}, path.child("metadata"), errors)
    validate_claim_spec(template.get("spec") or {}, path.child("spec"), errors)
