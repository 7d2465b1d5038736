"""ObjectMeta handling that is the same for every type (upstream: apiserver ``registry/rest/meta.go``)."""

from __future__ import annotations

import secrets

import orjson

from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.field import FieldError
from kapi.machinery.gvk import GroupResource, GroupVersionResource
from kapi.machinery.names import path_segment
from kapi.machinery.tree import Object
from kapi.registry.errors import upstream_key
from kapi.resources.shared.metadata import validate_metadata, validate_metadata_update

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no characters that look alike
RANDOM_LENGTH = 5
_MAX_BASE_LENGTH = 63 - RANDOM_LENGTH  # characters


def generate_name(base: str, suffix: str = "") -> str:
    """``base``, cut if it is too long, and a suffix of five characters, by default random ones."""
    return base[:_MAX_BASE_LENGTH] + (suffix or "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH)))


def wipe_system_fields(metadata: Object) -> None:
    """Removes the metadata that a client may not set on create."""
    for name in ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(name, None)


def ensure_namespace(obj: Object, namespace: str, resource: GroupVersionResource) -> None:
    """Sets the object's namespace to the request's; raises BadRequest when it names another one."""
    metadata = obj.setdefault("metadata", {})
    given = metadata.get("namespace", "")
    if resource.group == "" and resource.resource == "namespaces":
        namespace = ""
    if namespace and not given:
        metadata["namespace"] = namespace
    elif not namespace:
        metadata.pop("namespace", None)  # meaningless for a cluster-scoped object
    elif given != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def ensure_name(obj: Object, name: str) -> None:
    """Raises BadRequest when admission has changed the name to another one than the URL's."""
    given = obj["metadata"].get("name", "")
    if given != name:
        raise status.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


_OWNER_DUPLICATES = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)
_OWNER_DUPLICATES_AFTER = (
    ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner "
    "references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) "
    "observed: {}"
)


def dedup_owner_references(obj: Object, after_admission: bool) -> str:
    """Drops owner references given twice; the warning to send, or ""."""
    references = obj.get("metadata", {}).get("ownerReferences")
    if not references or len(references) < 2:
        return ""
    kept: dict[bytes, Object] = {}
    duplicates: list[str] = []
    for reference in elements(references):
        if kept.setdefault(orjson.dumps(reference, option=orjson.OPT_SORT_KEYS), reference) is not reference:
            duplicates.append(reference.get("uid", ""))
    if not duplicates:
        return ""
    obj["metadata"]["ownerReferences"] = list(kept.values())
    text = _OWNER_DUPLICATES_AFTER if after_admission else _OWNER_DUPLICATES
    return text.format(", ".join(duplicates))


def _any_segment(name: str, prefix: bool = False) -> tuple[str, ...]:
    return path_segment(name)


def validate(obj: Object, namespaced: bool, shared: bool = True) -> list[FieldError]:
    """The rules of every type on create.  They run after the type's own rules have passed, which have better messages.

    ``shared``: also the rules that ``validate_update`` checks for changes.
    """
    errors: list[FieldError] = []
    validate_metadata(obj, errors, namespaced=namespaced, name=_any_segment, qualified_finalizers=False, shared=shared)
    return errors


def validate_update(obj: Object, old: Object, namespaced: bool, *, judged: bool = False) -> list[FieldError]:
    """The rules of every type on update; their errors come before those of the type.

    ``judged``: the rules of the type have checked the metadata's changes before.
    """
    errors = validate(obj, namespaced, shared=not judged)
    if not judged:
        validate_metadata_update(obj, old, errors, qualified_finalizers=False)
    return errors


def check_uid(
    precondition: str, obj: Object | None, resource: GroupResource, namespace: str, name: str, dry_run: bool = False
) -> None:
    """Raises Conflict when ``obj`` has another uid than the precondition; the text is from upstream's storage layer.

    Upstream's dry run fails in the layer above, which knows the key without its prefix.
    """
    actual = obj["metadata"].get("uid", "") if obj is not None else ""
    if precondition and precondition != actual:
        key = ("" if dry_run else "/registry") + upstream_key(resource, namespace, name)
        raise status.conflict(
            resource,
            name,
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {precondition}, UID in object meta: {actual}",
        )
