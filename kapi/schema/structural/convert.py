"""Conversion of structural schemas to Types for decoding, apply and OpenAPI (upstream: ``schema/kubeopenapi.go``)."""

from __future__ import annotations

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import entries
from kapi.machinery.tree import Object
from kapi.schema import builtin
from kapi.schema.structural.coercion import has_embedded
from kapi.schema.structural.structure import Schema, additional, embedded, int_or_string, preserves, required_properties
from kapi.schema.types import Field, Kind, Type

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_STRING = Type(Kind.STRING, go_type="string")
_SCALARS = {"string": Kind.STRING, "integer": Kind.INTEGER, "number": Kind.NUMBER, "boolean": Kind.BOOLEAN}


def type_of(schema: Schema | None, name: str) -> Type:
    """The type of a custom resource; its attribute ``schema`` is the given schema."""
    given = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    found = _convert(given)
    if found.kind is not Kind.STRUCT:
        found = Type(Kind.STRUCT, preserve_unknown=True)
    found.name = name
    found.schema = given
    found.has_embedded = has_embedded(given)
    found.fields["apiVersion"] = Field("apiVersion", _STRING)
    found.fields["kind"] = Field("kind", _STRING)
    found.fields["metadata"] = Field("metadata", builtin.definition(_OBJECT_META))
    return found


def _convert(schema: Schema) -> Type:
    checkpoint()
    nullable = bool(schema.get("nullable"))
    if int_or_string(schema):
        return Type(Kind.INT_OR_STRING, nullable=nullable)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, nullable)
    if kind in _SCALARS:
        return Type(_SCALARS[kind], nullable=nullable)
    properties, extra = schema.get("properties"), schema.get("additionalProperties")
    map_type = schema.get("x-kubernetes-map-type") or "granular"
    if properties or kind == "object" and not extra:
        if extra is True and not preserves(schema):
            return Type(Kind.MAP, elem=Type(Kind.ANY), map_type=map_type, nullable=nullable)
        return _struct(schema, properties or {}, map_type, nullable)
    if extra:
        sub = additional(schema)
        elem = _convert(sub) if sub is not None else Type(Kind.ANY)
        return Type(Kind.MAP, elem=elem, map_type=map_type, nullable=nullable)
    return Type(Kind.ANY, preserve_unknown=True, nullable=nullable)


def _list(schema: Schema, nullable: bool) -> Type:
    items = schema.get("items")
    elem = _convert(items) if isinstance(items, dict) else Type(Kind.ANY)
    return Type(
        Kind.LIST,
        elem=elem,
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        list_map_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        nullable=nullable,
    )


def _struct(schema: Schema, properties: Object, map_type: str, nullable: bool) -> Type:
    fields: dict[str, Field] = {}
    required = required_properties(schema)
    for name, prop in entries(properties):
        default = prop.get("default")
        fields[name] = Field(
            name, _convert(prop), required=name in required, default=default, has_default=default is not None
        )
    if embedded(schema):
        fields.setdefault("apiVersion", Field("apiVersion", _STRING))
        fields.setdefault("kind", Field("kind", _STRING))
        fields["metadata"] = Field("metadata", builtin.definition(_OBJECT_META))
    return Type(Kind.STRUCT, fields=fields, map_type=map_type, preserve_unknown=preserves(schema), nullable=nullable)
