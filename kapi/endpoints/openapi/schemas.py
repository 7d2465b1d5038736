"""Schemas of the published documents: derived definitions with their texts, in the forms of OpenAPI v2 and v3.

The forms differ in references next to other keywords, in defaults and in the two union types.
Upstream: kube-openapi ``builder`` and ``builder3``.
"""

from __future__ import annotations

from collections.abc import Iterable

from kapi.machinery.each import entries
from kapi.machinery.tree import Object, Tree
from kapi.schema import builtin, derive
from kapi.schema.types import Field, Kind

Schema = Object
V2, V3 = "#/definitions/", "#/components/schemas/"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_ZEROS: dict[Kind, Tree] = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0, Kind.BOOLEAN: False}


def definition_v2(name: str, enums: bool = True) -> Schema:
    """A definition as ``/openapi/v2`` has it: without defaults."""
    schema = _described(name, enums)
    if "properties" in schema:
        schema["properties"] = {field: _without(value, "default") for field, value in schema["properties"].items()}
    return schema


def _described(name: str, enums: bool) -> Schema:
    schema = dict(builtin.definitions()[name])
    schema.pop("go", None)
    texts = builtin.descriptions()[name]
    if "" in texts:
        schema["description"] = texts[""]
    if "properties" in schema:
        schema["properties"] = {
            field: {**value, "description": texts[field]} if field in texts else value
            for field, value in schema["properties"].items()
        }
        if not enums:
            schema["properties"] = {field: _without_enums(value) for field, value in schema["properties"].items()}
    return schema


def _without_enums(schema: Schema) -> Schema:
    """A field's schema without the values of enumerations, and without their list in its text."""
    result = _without(schema, "enum")
    text, mark, _ = result.get("description", "").partition(derive.VALUES)
    if mark:
        result["description"] = text.strip()
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _without_enums(result[key])
    return result


def definition_v3(name: str, enums: bool = True) -> Schema:
    """A definition as the documents of ``/openapi/v3`` have it; without ``enums`` no field lists its values."""
    schema = _described(name, enums)
    if name == _QUANTITY:
        return {**_without(schema, "type"), "oneOf": [{"type": "string"}, {"type": "number"}]}
    if name == _INT_OR_STRING:
        return {**_without(schema, "type"), "oneOf": [{"type": "integer"}, {"type": "string"}]}
    if "properties" in schema:
        fields = builtin.definition(name).fields
        schema["properties"] = {
            field: _property_v3(value, fields.get(field)) for field, value in schema["properties"].items()
        }
    return schema


def _without(schema: Schema, *keys: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keys}


def _property_v3(schema: Schema, field: Field | None) -> Schema:
    result = _node_v3(schema)
    if field is not None and not field.pointer and "default" not in result:
        zero = _default(field)
        if zero is not None:
            result = {**result, "default": zero}
    if "$ref" in result and len(result) > 1:
        reference = result.pop("$ref")
        result = {"allOf": [{"$ref": reference}], **result}
    return result


def _default(field: Field) -> Tree:
    """The default that the generator writes for fields that Go always has."""
    if field.type.kind is Kind.STRUCT:
        return {}
    return _ZEROS.get(field.type.kind) if not field.omitempty else None


def _node_v3(schema: Schema) -> Schema:
    result = dict(schema)
    if "$ref" in result:
        result["$ref"] = result["$ref"].replace(V2, V3)
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _node_v3(result[key])
    return result


def closure(names: Iterable[str]) -> list[str]:
    """The named definitions and all that they refer to, sorted."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name not in builtin.definitions():
            continue
        found.add(name)
        waiting.extend(references(builtin.definitions()[name]))
    return sorted(found)


def references(node: object) -> list[str]:
    """The definitions a schema names."""
    found: list[str] = []
    if isinstance(node, dict):
        for key, value in entries(node):
            if key == "$ref" and isinstance(value, str):
                found.append(value.rsplit("/", 1)[1])
            elif key != "go":
                found.extend(references(value))
    elif isinstance(node, list):
        for value in node:
            found.extend(references(value))
    return found
