"""Metadata of embedded resources, brought into the form of its Go type (upstream: apiextensions ``schema/objectmeta/coerce.go``,
``algorithm.go``)."""

from __future__ import annotations

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.go_json import sorted_fields
from kapi.machinery.tree import Object
from kapi.schema import builtin
from kapi.schema.decode_exact import ExactDecoder, MetadataDecoder
from kapi.schema.decode_fast import Unusual, walk_of
from kapi.schema.structural.structure import Schema, additional, anywhere, embedded

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
UNKNOWN = 'unknown field "'


def decode_metadata(metadata: object, decoder: ExactDecoder) -> Object:
    """Metadata decoded by its Go type.  Raises ValueError with Go's text."""
    if metadata is None:
        return {}
    if isinstance(metadata, dict):
        metadata = dict(sorted(metadata.items()))  # the order in which upstream reports errors
    type_ = builtin.definition(_OBJECT_META)
    try:
        return walk_of(type_)(metadata, [0])  # type: ignore[no-any-return]
    except (Unusual, RecursionError):
        result: Object = decoder.decode(metadata, type_)
        return result


def has_embedded(schema: Schema | None) -> bool:
    """Whether a schema has embedded resources; without any ``coerce`` need not be called."""
    return anywhere(schema, embedded)


def coerce(
    path: Path, value: object, schema: Schema | None, *, drop: bool, unknown: list[str] | None = None
) -> FieldError | None:
    """Coerces metadata to its Go type, in place; with ``drop`` values that do not fit are removed, otherwise they are errors.

    The paths of fields that metadata does not have are appended to ``unknown``.
    """
    if not schema:
        return None
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item, at in each_of(path, value):
                error = coerce(at, item, items, drop=drop, unknown=unknown)
                if error is not None:
                    return error
        return None
    if not isinstance(value, dict):
        return None
    properties, extra = schema.get("properties") or {}, additional(schema)
    is_object = embedded(schema)
    for name in elements(list(value)):
        if is_object:
            error = _coerce_meta(path, value, name, drop, unknown)
            if error is not None:
                return error
            if name not in value:
                continue
        if name in properties:
            error = coerce(path.child(name), value[name], properties[name], drop=drop, unknown=unknown)
        elif extra is not None:
            error = coerce(path.key(name), value[name], extra, drop=drop, unknown=unknown)
        else:
            error = None
        if error is not None:
            return error
    return None


def _coerce_meta(path: Path, obj: Object, name: str, drop: bool, unknown: list[str] | None) -> FieldError | None:
    value = obj[name]
    if name in ("apiVersion", "kind"):
        if not isinstance(value, str):
            if not drop:
                return invalid(path.child(name), sorted_fields(value), "must be a string")
            del obj[name]
    elif name == "metadata":
        decoder = MetadataDecoder()
        try:
            meta = decode_metadata(value, decoder)
        except ValueError as error:
            if not drop:
                return invalid(path.child("metadata"), sorted_fields(value), str(error))
            if not isinstance(value, dict):
                return None  # it stays unchanged, as upstream
            meta = _fitting(value)
        if unknown is not None:
            prefix = f"{path.child('metadata')}."
            unknown.extend(prefix + text.removeprefix(UNKNOWN).removesuffix('"') for text in decoder.problems)
        obj["metadata"] = meta
    return None


def _fitting(value: Object) -> Object:
    kept: Object = {}
    for name, item in value.items():
        try:
            kept.update(ExactDecoder().decode({name: item}, builtin.definition(_OBJECT_META)))
        except ValueError:
            continue
    return kept
