"""The types of Kubernetes 1.36: looked up by definition name or by group, version and kind.

Their file is made at build time (``derive.py``); a source checkout makes it on first use.  It is read once, and a
definition becomes a Type on first use.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
import orjson

from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.schema import derive
from kapi.schema.types import Field, Kind, Type

Name = TypeVar("Name", bound=tuple[str, str])
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

#: definitions whose JSON differs from their OpenAPI form
_SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Kind.QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Kind.INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Kind.ANY,
    _META + "Time": Kind.TIME,
    _META + "MicroTime": Kind.MICRO_TIME,
    _META + "Duration": Kind.DURATION,
    _META + "FieldsV1": Kind.ANY,
    _META + "Patch": Kind.ANY,
    _CRD + "JSON": Kind.ANY,
    _CRD + "JSONSchemaPropsOrArray": Kind.ANY,
    _CRD + "JSONSchemaPropsOrBool": Kind.ANY,
    _CRD + "JSONSchemaPropsOrStringArray": Kind.ANY,
}
_SCALARS = {"string": Kind.STRING, "integer": Kind.INTEGER, "number": Kind.NUMBER, "boolean": Kind.BOOLEAN}
_types: dict[str, Type] = {}


class Definitions(Mapping[str, Object]):
    """Definitions by name, decoded on access: most are never needed, and a tree takes six times the memory of its text."""

    def __init__(self, content: bytes) -> None:
        self._texts = msgspec.json.decode(content, type=dict[str, msgspec.Raw])

    def __getitem__(self, name: str) -> Object:
        found: Object = orjson.loads(memoryview(self._texts[name]))
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class _Kinds(msgspec.Struct):
    """The part of a definition that names the kinds it is the type of."""

    kinds: list[dict[str, str]] = msgspec.field(name="x-kubernetes-group-version-kind", default_factory=list)


@functools.cache
def definitions() -> Definitions:
    """All definitions in OpenAPI v2 form, without descriptions, with Go's facts under ``go``."""
    return Definitions(_content(derive.TYPES))


@functools.cache
def descriptions() -> dict[str, dict[str, str]]:
    """Definition -> {"": its text, field: the field's text}.  Only OpenAPI needs them."""
    texts: dict[str, dict[str, str]] = orjson.loads(_content(derive.TEXTS))
    return texts


def field_texts(names: Iterable[Name]) -> dict[Name, str]:
    """The descriptions of fields, each named by its definition (without "io.k8s.") and itself, without the values of
    enumerations.  Raises KeyError.
    """
    packed = msgspec.json.decode(_content(derive.TEXTS), type=dict[str, msgspec.Raw])
    texts = {name: msgspec.json.decode(packed[f"io.k8s.{name[0]}"], type=dict[str, str])[name[1]] for name in names}
    return {name: text.partition(derive.VALUES)[0].rstrip("\n") for name, text in texts.items()}


def _content(name: str) -> bytes:
    path = derive.HERE / "data" / name
    try:
        return path.read_bytes()
    except FileNotFoundError:
        derive.write(path.parent)
        return path.read_bytes()


def definition(name: str) -> Type:
    """The type of a definition such as ``io.k8s.api.core.v1.Pod``.  Raises KeyError when there is none."""
    found = _types.get(name)
    return found if found is not None else _build(name)


@functools.cache
def names_by_kind() -> dict[GroupVersionKind, str]:
    """Group, version and kind -> definition name."""
    names = {}
    for name, found in msgspec.json.decode(_content(derive.TYPES), type=dict[str, _Kinds]).items():
        for gvk in found.kinds:
            names[GroupVersionKind(gvk["group"], gvk["version"], gvk["kind"])] = name
    names[GroupVersionKind("meta.k8s.io", "v1", "DeleteOptions")] = _META + "DeleteOptions"
    return names


def type_of(kind: GroupVersionKind) -> Type:
    """The type of a kind.  Raises KeyError when Kubernetes has none of that name."""
    return definition(names_by_kind()[kind])


def _go_name(name: str) -> str:
    return ".".join(name.rsplit(".", 2)[1:])


def _build(name: str) -> Type:
    schema = definitions()[name]
    short = name.rsplit(".", 1)[1]
    special = _SPECIAL.get(name)
    if special is not None:
        result = Type(special, name=short, definition=name, go_type=_go_name(name))
        _types[name] = result
        if short.startswith("JSONSchemaPropsOr"):
            result.unions = (definition(_CRD + "JSONSchemaProps"),)
        return result
    result = Type(Kind.STRUCT, name=short, definition=name, go_type=_go_name(name))
    result.map_type = schema.get("x-kubernetes-map-type", "granular")
    _types[name] = result  # before the fields: JSONSchemaProps contains itself
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    facts = schema.get("go", {})
    for field_name in facts or properties:
        result.fields[field_name] = _field(
            field_name, properties[field_name], field_name in required, facts.get(field_name, "")
        )
    return result


def _field(name: str, schema: Object, required: bool, fact: str) -> Field:
    flags, _, go_type = fact.partition("=")
    pointer = "$ref" in schema and not required
    if "*" in flags:
        pointer = True
    elif "." in flags:
        pointer = False
    omitempty = not required
    if "!" in flags:
        omitempty = False
    elif "?" in flags:
        omitempty = True
    return Field(
        name,
        _type(schema, go_type),
        required=required,
        pointer=pointer,
        omitempty=omitempty,
        omitzero="0" in flags,
        default=schema.get("default"),
        has_default="default" in schema,
        patch_strategy=schema.get("x-kubernetes-patch-strategy", ""),
        patch_merge_key=schema.get("x-kubernetes-patch-merge-key", ""),
    )


def _type(schema: Object, go_type: str = "") -> Type:
    """The type of a property; ``go_type`` overrides what its OpenAPI form implies."""
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), None)
    if reference is not None:
        referenced = definition(reference.rsplit("/", 1)[1])
        map_type = schema.get("x-kubernetes-map-type", referenced.map_type)
        if map_type != referenced.map_type:
            return dataclasses.replace(referenced, map_type=map_type)  # shares the field table
        return referenced
    kind = schema.get("type")
    if kind == "array":
        elem = _type(schema["items"], go_type[2:] if go_type.startswith("[]") else "")
        return Type(
            Kind.LIST,
            go_type=go_type or "[]" + elem.go_type,
            elem=elem,
            list_type=schema.get("x-kubernetes-list-type", "atomic"),
            list_map_keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        )
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        elem = _type(schema["additionalProperties"], go_type.partition("]")[2] if go_type.startswith("map[") else "")
        return Type(
            Kind.MAP,
            go_type=go_type or "map[string]" + elem.go_type,
            elem=elem,
            map_type=schema.get("x-kubernetes-map-type", "granular"),
        )
    if kind == "string" and schema.get("format") == "byte":
        return Type(Kind.BYTES, go_type=go_type or "[]uint8")
    if kind in _SCALARS:
        return Type(
            _SCALARS[kind],
            go_type=go_type or _implied_go_type(schema),
            int_bits=32 if schema.get("format") == "int32" else 64,
        )
    return Type(Kind.ANY, go_type=go_type or "interface {}")


def _implied_go_type(schema: Object) -> str:
    kind = schema["type"]
    if kind == "integer":
        return str(schema.get("format", "int"))
    return {"string": "string", "number": "float64", "boolean": "bool"}[kind]
