"""Validation of the metadata of embedded resources (upstream: apiextensions ``schema/objectmeta/validation.go``)."""

from __future__ import annotations

from kapi.machinery import names
from kapi.machinery.field import FieldError, Path, invalid, required
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.shared.metadata import validate_metadata
from kapi.resources.shared.rules import MIXED_CASE, report_once
from kapi.schema import builtin
from kapi.schema.decode_exact import ExactDecoder
from kapi.schema.structural.pruning import root
from kapi.schema.structural.structure import Schema, additional, embedded

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


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


def _segment(name: str, prefix: bool) -> list[str]:
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
