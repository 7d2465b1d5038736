"""Published schemas of custom resources (upstream: apiextensions-apiserver ``controller/openapi/{builder,v2}``).

Clients validate objects with the document of v2, and some refuse fields that it does not list.  So where unknown fields are
preserved, or null is allowed, it must not describe the fields below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from kapi.endpoints.openapi.paths import custom_name
from kapi.endpoints.openapi.pieces import Make
from kapi.endpoints.openapi.schemas import V2, definition_v3
from kapi.machinery.each import elements, entries
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource
from kapi.schema import builtin

INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_PRESERVES, _EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_EITHER = [{"type": "integer"}, {"type": "string"}]
_KINDS = "x-kubernetes-group-version-kind"
#: groups that upstream's server of custom resources does not know
_UNKNOWN_GROUPS = frozenset(
    ["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"]
)
#: definitions to which the schemas of custom resources refer; those that they contain have no references
REFERENCES = (_META + "ListMeta", _META + "ObjectMeta")
_UNPUBLISHED = frozenset(["readOnly"])
_NOT_IN_V2 = frozenset(["allOf", "oneOf", "anyOf", "not", "default"])


def definition(name: str) -> Object:
    """A built-in definition as the documents of custom resources have it, in the form of v3."""
    schema = definition_v3(name)
    kinds = schema.get(_KINDS)
    if kinds is not None:
        schema[_KINDS] = [kind for kind in kinds if kind["group"] not in _UNKNOWN_GROUPS]
    return schema


def custom_schemas(resources: Iterable[Resource], prefix: str) -> dict[str, Make]:
    """The functions that make the schemas of custom resources and of their lists.  ``prefix``: of references, V2 or V3."""
    found: dict[str, Make] = {}
    for row in resources:
        if not row.typed_items or row.published_schema is None:
            continue
        kind = row.group_version_kind
        found[custom_name(kind)] = partial(_schema, row, row.published_schema, kind, prefix)
        list_kind = kind._replace(kind=row.list_kind)
        found[custom_name(list_kind)] = partial(_list, row, kind, list_kind, prefix)
    return found


def _schema(row: Resource, published: Make, kind: GroupVersionKind, prefix: str) -> Object:
    return {**schema_of(published(), kind, prefix), **_selectable(row)}


def _selectable(row: Resource) -> Object:
    fields = [{"fieldPath": name} for name in row.selectable_fields]
    return {"x-kubernetes-selectable-fields": fields} if fields else {}


def _list(row: Resource, kind: GroupVersionKind, list_kind: GroupVersionKind, prefix: str) -> Object:
    items = {
        "description": f"List of {row.plural}. More info: {_CONVENTIONS}",
        "type": "array",
        "items": {"$ref": prefix + custom_name(kind)},
    }
    metadata = _meta("ListMeta", f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds", prefix)
    return {
        "description": f"{row.list_kind} is a list of {row.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {**_type_meta(), "metadata": metadata, "items": items},
        _KINDS: [list_kind._asdict()],
        **_selectable(row),
    }


def _type_meta() -> Object:
    """``apiVersion`` and ``kind`` as every type has them."""
    texts = builtin.descriptions()[_META + "Status"]
    return {name: {"description": texts[name], "type": "string"} for name in ("apiVersion", "kind")}


def _meta(name: str, text: str, prefix: str) -> Object:
    reference = {"$ref": prefix + _META + name}
    return {"description": text, **(reference if prefix == V2 else {"allOf": [reference]})}


def _object_meta(prefix: str) -> Object:
    return _meta("ObjectMeta", f"Standard object's metadata. More info: {_CONVENTIONS}#metadata", prefix)


def schema_of(schema: Object, kind: GroupVersionKind, prefix: str) -> Object:
    """The published form of a version's schema."""
    kinds = {_KINDS: [kind._asdict()]}
    if prefix == V2 and schema.get(_PRESERVES):
        return {"type": "object", **kinds}
    published = _published(schema, prefix)
    properties = {**published.get("properties", {}), **_type_meta(), "metadata": _object_meta(prefix)}
    return {**published, "type": "object", "properties": properties, **kinds}


def _published(schema: Object, prefix: str) -> Object:
    """A part of a schema, with all below it."""
    shown = {key: value for key, value in entries(schema) if key not in _UNPUBLISHED}
    shown = _for_v2(shown) if prefix == V2 else _unfolded(shown)
    if "properties" in shown:
        shown["properties"] = {name: _published(part, prefix) for name, part in shown["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(shown.get(key), dict):
            shown[key] = _published(shown[key], prefix)
    if schema.get(_EMBEDDED) and not (prefix == V2 and schema.get(_PRESERVES)):
        _describe_embedded(shown, prefix)
    return shown


def _unfolded(schema: Object) -> Object:
    """``x-kubernetes-int-or-string`` in keywords that other tools know (upstream: ``schema/unfold.go``)."""
    if not schema.get(_INT_OR_STRING):
        return schema
    several, conditions = schema.get("anyOf"), schema.get("allOf") or []
    if several == _EITHER or (conditions and (conditions[0] or {}).get("anyOf") == _EITHER):
        return schema
    if several is None:
        return {**schema, "anyOf": _EITHER}
    return {**schema, "allOf": [{"anyOf": _EITHER}, *conditions]}


def _for_v2(schema: Object) -> Object:
    shown = {key: value for key, value in schema.items() if key not in _NOT_IN_V2}
    untyped = bool(shown.pop("nullable", False))
    if untyped or shown.get(_PRESERVES):
        shown.pop("items", None)
        shown.pop("properties", None)
    given = shown.get("type")
    if untyped or (given == "array" and "items" not in shown) or (given == "object" and shown.get(_PRESERVES)):
        shown.pop("type", None)  # kubectl cannot handle these
    required = [name for name in elements(shown, "required") if not _is_nullable(shown.get("properties", {}).get(name))]
    if _is_nullable(shown.get("additionalProperties")):
        required = []
    shown.pop("required", None)
    return {**shown, "required": required} if required else shown


def _is_nullable(schema: object) -> bool:
    return isinstance(schema, Mapping) and bool(schema.get("nullable"))


def _describe_embedded(shown: Object, prefix: str) -> None:
    """An object in an object: it has a type and metadata of its own."""
    version = f"apiVersion defines the versioned schema of this representation of an object. More info: {_CONVENTIONS}#resources"
    kind = (
        "kind is a string value representing the type of this object. In CamelCase. "
        f"More info: {_CONVENTIONS}#types-kinds"
    )
    shown["properties"] = {
        **shown.get("properties", {}),
        "apiVersion": {"description": version, "type": "string"},
        "kind": {"description": kind, "type": "string"},
        "metadata": _object_meta(prefix),
    }
    required = list(shown.get("required", ()))
    shown["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
