"""ObjectMeta: validation on create and update (upstream: apimachinery ``api/validation/objectmeta.go``).

Use ``validate_metadata(obj, errors, namespaced=True, name=subdomain_name)`` first in ``validate`` and
``validate_metadata_update(new, old, errors)`` first in ``validate_update``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kapi.machinery import field, golang
from kapi.machinery.each import each_of, elements, entries
from kapi.machinery.field import Path
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared.names import is_condition_reason, is_label_key, is_label_value, label_name, subdomain_name
from kapi.resources.shared.rules import Errors, fits, need, not_supported, report, same

NameRule = Callable[[str, bool], Iterable[str]]

METADATA = Path("metadata")
MAX_ANNOTATIONS_BYTES = 256 * 1024  # size of all keys and values
IMMUTABLE = "field is immutable"
_OPERATIONS, _FIELDS_TYPES = ("Apply", "Update"), ("FieldsV1", None, "")
_SHORT_CHARACTERS = 32  # characters: at most 128 bytes in UTF-8, the limit of a manager's name
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"


def validate_metadata(
    obj: Mapping[str, Tree],
    errors: Errors,
    *,
    namespaced: bool = True,
    name: NameRule = subdomain_name,
    path: Path = METADATA,
    qualified_finalizers: bool = True,
    shared: bool = True,
) -> None:
    """Appends the errors of an object's metadata on create; ``name`` is the rule for its name.

    ``qualified_finalizers``: finalizers without a domain must be standard ones (the types of kube-apiserver proper).
    ``shared``: also makes the checks that ``validate_metadata_update`` makes.
    """
    meta = obj.get("metadata") or {}
    generate = meta.get("generateName")
    if generate:
        report(name(generate, True), generate, path, errors, "generateName")
    own = meta.get("name")
    if not own:
        errors.append(field.required(path.child("name"), "name or generateName is required"))
    else:
        report(name(own, False), own, path, errors, "name")
    namespace = meta.get("namespace")
    if namespaced:
        if not namespace:
            errors.append(field.required(path.child("namespace")))
        else:
            report(label_name(namespace), namespace, path, errors, "namespace")
    elif namespace:
        errors.append(field.forbidden(path.child("namespace"), "not allowed on this type"))
    if meta.get("generation", 0) < 0:
        errors.append(field.invalid(path.child("generation"), meta["generation"], "must be greater than or equal to 0"))
    if shared:
        _validate_labels_and_owners(meta, path, errors)
    finalizers = meta.get("finalizers")
    if finalizers:
        validate_finalizers(finalizers, path.child("finalizers"), errors)
    if not shared:
        return
    managed = meta.get("managedFields")
    if managed:
        validate_managed_fields(managed, path, errors)
    if finalizers and qualified_finalizers:
        _validate_qualified_finalizers(finalizers, path.child("finalizers"), errors)


def validate_metadata_update(
    new: Mapping[str, Tree], old: Mapping[str, Tree], errors: Errors, *, qualified_finalizers: bool = True
) -> None:
    """Appends the errors of a change of an object's metadata."""
    meta: Mapping[str, Tree] = new.get("metadata") or {}
    before: Mapping[str, Tree] = old.get("metadata") or {}
    if before.get("deletionTimestamp"):
        extra = ordered(set(meta.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if extra:
            shown = "[]string{" + ", ".join(golang.quote(item) for item in extra) + "}"
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            errors.append(field.forbidden(METADATA.child("finalizers"), text))
    if not meta.get("resourceVersion"):
        errors.append(field.invalid(METADATA.child("resourceVersion"), "", "must be specified for an update"))
    if meta.get("generation", 0) < before.get("generation", 0):
        value = meta.get("generation", 0)
        errors.append(field.invalid(METADATA.child("generation"), value, "must not be decremented"))
    for name, zero in _IMMUTABLE_METADATA:
        value = meta.get(name, zero)
        if value != before.get(name, zero):
            errors.append(field.invalid(METADATA.child(name), value, IMMUTABLE))
    _validate_labels_and_owners(meta, METADATA, errors)
    managed = meta.get("managedFields")
    if managed:
        validate_managed_fields(managed, METADATA, errors)
    if meta.get("finalizers") and qualified_finalizers:
        _validate_qualified_finalizers(meta["finalizers"], METADATA.child("finalizers"), errors)


def _validate_labels_and_owners(meta: Mapping[str, Tree], path: Path, errors: Errors) -> None:
    labels = meta.get("labels")
    if labels:
        validate_labels(labels, path.child("labels"), errors)
    annotations = meta.get("annotations")
    if annotations:
        validate_annotations(annotations, path.child("annotations"), errors)
    owners = meta.get("ownerReferences")
    if owners:
        validate_owner_references(owners, path.child("ownerReferences"), errors)


#: fields that no update may change, with the value of an absent one
_IMMUTABLE_METADATA: tuple[tuple[str, Tree], ...] = (
    ("name", ""),
    ("namespace", ""),
    ("uid", ""),
    ("creationTimestamp", None),
    ("deletionTimestamp", None),
    ("deletionGracePeriodSeconds", None),
)


def validate_labels(labels: Mapping[str, str], path: Path, errors: Errors) -> None:
    for key, value in entries(labels):
        validate_label_name(key, path, errors)
        for text in is_label_value(value):
            errors.append(field.invalid(path, value, text, "format=k8s-label-value"))


def validate_label_name(name: str, path: Path, errors: Errors) -> None:
    for text in is_label_key(name):
        errors.append(field.invalid(path, name, text, "format=k8s-label-key"))


def validate_annotations(annotations: Mapping[str, str], path: Path, errors: Errors) -> None:
    size = 0
    for key, value in entries(annotations):
        for text in is_label_key(key.lower()):
            errors.append(field.invalid(path, key, text, "format=k8s-label-key"))
        size += len(key.encode()) + (len(value) if value.isascii() else len(value.encode()))
    fits(size, MAX_ANNOTATIONS_BYTES, path, errors)


def validate_user_annotations(annotations: Mapping[str, str], path: Path, errors: Errors) -> None:
    """Annotations that a pod passes on to its certificate's signer: their keys have a domain (upstream: ``core/validation``)."""
    size = 0
    for key in ordered(annotations):
        size += len(key.encode()) + len(annotations[key].encode())
        lower = key.lower()
        if not lower:
            errors.append(field.required(path))
            continue
        texts = is_label_key(lower)
        if not texts and "/" not in lower:
            texts = ('must be a domain-prefixed key (such as "acme.io/foo")',)
        report(texts, lower, path, errors)
    fits(size, MAX_ANNOTATIONS_BYTES, path, errors)


def validate_owner_references(owners: list[Object], path: Path, errors: Errors) -> None:
    controller = ""
    for owner in elements(owners):
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        try:
            version = GroupVersion.parse(api_version)
        except ValueError:
            version = GroupVersion("", "")
        if not version.version:
            errors.append(field.invalid(path.child("apiVersion"), api_version, "version must not be empty"))
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                errors.append(field.invalid(path.child(name), "", "must not be empty"))
        if version == ("", "v1") and kind == "Event":
            errors.append(field.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            this = f"{kind}/{owner.get('name', '')}"
            if controller:
                text = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {this}'
                )
                errors.append(field.invalid(path, owners, text))
            else:
                controller = this


def validate_finalizers(finalizers: list[str], path: Path, errors: Errors) -> None:
    for finalizer in finalizers:
        report(is_label_key(finalizer), finalizer, path, errors)
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        errors.append(field.invalid(path, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))


def _validate_qualified_finalizers(finalizers: list[str], path: Path, errors: Errors) -> None:
    for i, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in (_ORPHAN, _FOREGROUND, "kubernetes"):
            text = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(field.invalid(path.index(i), finalizer, text))


def validate_managed_fields(entries: list[Object], path: Path, errors: Errors) -> None:
    """Checks managed fields; ``path`` is the path of the metadata."""
    for entry, here in each_of(path.child("managedFields"), entries):
        manager, get = entry.get("manager", ""), entry.get
        if (
            get("operation") in _OPERATIONS
            and get("fieldsType") in _FIELDS_TYPES
            and len(manager) <= _SHORT_CHARACTERS
            and manager.isprintable()
            and len(get("subresource", "")) <= _SHORT_CHARACTERS
        ):
            continue  # nearly all entries are valid
        if get("operation") not in _OPERATIONS:
            operation = get("operation", "")
            errors.append(field.invalid(here.child("operation"), operation, "must be `Apply` or `Update`"))
        if get("fieldsType") not in _FIELDS_TYPES:
            errors.append(field.invalid(here.child("fieldsType"), entry["fieldsType"], "must be `FieldsV1`"))
        fits(len(manager.encode()), 128, here, errors, "manager")
        if not manager.isprintable():
            for position, char in enumerate(manager):
                if not char.isprintable():
                    text = f"invalid character U+{ord(char):04X} (at position {position})"
                    errors.append(field.invalid(here.child("manager"), manager, text))
        fits(len(entry.get("subresource", "")), 256, here, errors, "subresource")


def validate_immutable(new: object, old: object, path: Path, errors: Errors) -> None:
    """Appends ``field is immutable`` when two values differ; absent, [] and {} are equal."""
    if not same(new, old):
        errors.append(field.invalid(path, new, IMMUTABLE))


def validate_conditions(conditions: list[Object], path: Path, errors: Errors) -> None:
    """A list of metav1.Condition (upstream: ``apis/meta/v1/validation.ValidateConditions``)."""
    seen = set()
    for i, condition in enumerate(conditions):
        here = path.index(i)
        kind = condition.get("type", "")
        if kind in seen:
            errors.append(field.duplicate(here.child("type"), kind))
        seen.add(kind)
        validate_label_name(kind, here.child("type"), errors)
        if condition.get("status") not in ("True", "False", "Unknown"):
            status = condition.get("status", "")
            errors.append(not_supported(here.child("status"), status, ("False", "True", "Unknown")))
        if condition.get("observedGeneration", 0) < 0:
            value = condition["observedGeneration"]
            text = "must be greater than or equal to zero"
            errors.append(field.invalid(here.child("observedGeneration"), value, text))
        need(condition.get("lastTransitionTime"), here, errors, "lastTransitionTime")
        reason = condition.get("reason")
        if not reason:
            errors.append(field.required(here.child("reason")))
        else:
            report(is_condition_reason(reason), reason, here, errors, "reason")
            fits(len(reason.encode()), 1024, here, errors, "reason")
        fits(len(condition.get("message", "").encode()), 32 * 1024, here, errors, "message")
