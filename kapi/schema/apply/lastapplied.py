"""The annotation of client-side apply, and the migration from it to server-side apply (KEP-555)."""

from __future__ import annotations

import orjson

from kapi.machinery.tree import Object
from kapi.schema.apply import comparing, fieldset, typed
from kapi.schema.apply.fieldset import Set
from kapi.schema.apply.shape import Shape

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS_BYTES = 256 * 1024  # of all annotations of an object


def _annotation(obj: Object) -> str:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return annotations.get(ANNOTATION) or ""


def owned_fields(shape: Shape, live: Object, api_version: str) -> Set | None:
    """Fields that client-side apply has set and that are unchanged; None without a usable annotation."""
    text = _annotation(live)
    if not text:
        return None
    try:
        applied = orjson.loads(text)
        if not isinstance(applied, dict) or applied.get("apiVersion") != api_version:
            return None
        typed.validate(shape, live)
        typed.validate(shape, applied)
    except ValueError:
        return None
    fields = typed.field_set(shape, applied)
    changes = comparing.compare(shape, applied, live)
    for changed in (changes.modified, changes.added, changes.removed):
        fields = fieldset.difference(fields, changed)
    return fields


def refreshed(obj: Object, applied: Object) -> Object:
    """The object with its annotation, if it has one, set to the configuration that is applied now."""
    if not _annotation(obj):
        return obj
    metadata = dict(applied.get("metadata") or {})
    if "annotations" in metadata:
        kept = {key: value for key, value in metadata["annotations"].items() if key != ANNOTATION}
        if kept:
            metadata["annotations"] = kept
        else:
            del metadata["annotations"]
    config = {**applied, "metadata": metadata}
    text = orjson.dumps(config, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    annotations = {**obj["metadata"]["annotations"], ANNOTATION: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MAX_ANNOTATIONS_BYTES:
        del annotations[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
