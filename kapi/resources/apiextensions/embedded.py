"""Metadata of embedded resources: its form and its validation (upstream: apiextensions ``schema/objectmeta``)."""

from __future__ import annotations

from kapi.machinery import names
from kapi.machinery.field import FieldError, Path, invalid, required
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.shared.metadata import validate_metadata
from kapi.resources.shared.rules import MIXED_CASE, report_once
from kapi.schema import builtin
from kapi.schema.decode_exact import ExactDecoder, MetadataDecoder
from kapi.schema.structural.pruning import root
from kapi.schema.structural.structure import Schema, additional, anywhere, embedded

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def has_embedded(schema: Schema | None) -> bool:
    """Whether a schema has embedded resources; without any the other functions need not be called."""
    return anywhere(schema, embedded)


def coerce(
    path: Path, value: object, schema: Schema | None, *, drop: bool, unknown: list[str] | None = None
) -> FieldError | None:
    """Coerces metadata to its Go type, in place; with ``drop`` values that do not fit are removed, otherwise they are errors."""
    if not schema:
        return None
    if isinstance(value, list):
        items = schema.get("items")
        for index, item in enumerate(value):
            error = coerce(
                path.index(index), item, items if isinstance(items, dict) else None, drop=drop, unknown=unknown
            )
            if error is not None:
                return error
        return None
    if not isinstance(value, dict):
        return None
    properties, extra = schema.get("properties") or {}, additional(schema)
    for name in list(value):
        if embedded(schema):
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
                return invalid(path.child(name), value, "must be a string")
            del obj[name]
    elif name == "metadata":
        decoder = MetadataDecoder()
        try:
            meta = decoder.decode(value if value is not None else {}, builtin.definition(_OBJECT_META))
        except ValueError as error:
            if not drop:
                return invalid(path.child("metadata"), value, str(error))
            if not isinstance(value, dict):
                return None  # it stays unchanged, as upstream
            meta = _fitting(value)
        if unknown is not None:
            prefix = f"{path.child('metadata')}."
            unknown.extend(text.replace('unknown field "', prefix).rstrip('"') for text in decoder.problems)
        if meta.get("creationTimestamp") is None:
            meta.pop("creationTimestamp", None)
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


def metadata_errors(path: Path, value: object, schema: Schema | None, is_root: bool = False) -> list[FieldError]:
    """The errors of kind, apiVersion and metadata of embedded resources."""
    errors: list[FieldError] = []
    _walk(path, value, root(schema) if is_root else schema, errors)
    return errors


def _walk(path: Path, value: object, schema: Schema | None, errors: list[FieldError]) -> None:
    if not schema:
        return
    if isinstance(value, dict):
        if embedded(schema):
            _embedded(path, value, errors)
        properties, extra = schema.get("properties") or {}, additional(schema)
        for name, item in value.items():
            if name in properties:
                _walk(path.child(name), item, properties[name], errors)
            elif extra is not None:
                _walk(path.key(name), item, extra, errors)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                _walk(path.index(index), item, items, errors)


def _embedded(path: Path, obj: Object, errors: list[FieldError]) -> None:
    for name in ("apiVersion", "kind"):
        if name not in obj:
            errors.append(required(path.child(name)))
    if "apiVersion" in obj:
        _api_version(path.child("apiVersion"), obj["apiVersion"], errors)
    if "kind" in obj:
        _kind(path.child("kind"), obj["kind"], errors)
    if "metadata" in obj:
        try:
            meta = ExactDecoder().decode(obj["metadata"] or {}, builtin.definition(_OBJECT_META))
        except ValueError as error:
            errors.append(invalid(path.child("metadata"), obj["metadata"], str(error)))
            return
        meta = {**meta, "name": meta.get("name") or "fakename"}
        validate_metadata(
            {"metadata": meta},
            errors,
            namespaced=bool(meta.get("namespace")),
            name=_segment,
            path=path.child("metadata"),
            qualified_finalizers=False,
        )


def _segment(name: str, prefix: bool = False) -> list[str]:
    return list(names.path_segment(name))


def _api_version(path: Path, value: object, errors: list[FieldError]) -> None:
    if not isinstance(value, str):
        errors.append(invalid(path, value, "must be a string"))
    elif not value:
        errors.append(invalid(path, value, "must not be empty"))
    else:
        try:
            GroupVersion.parse(value)
        except ValueError as error:
            errors.append(invalid(path, value, str(error)))


def _kind(path: Path, value: object, errors: list[FieldError]) -> None:
    if not isinstance(value, str):
        errors.append(invalid(path, value, "must be a string"))
    elif not value:
        errors.append(invalid(path, value, "must not be empty"))
    else:
        report_once(names.dns_1035_label(value.lower()), value, path, errors, before=MIXED_CASE)
