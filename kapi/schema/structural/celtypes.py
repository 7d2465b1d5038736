"""CEL declarations of a structural schema: types, sizes, and conversion of values.

Upstream: apiserver ``cel/common/schemas.go``, ``values.go``, ``cel/escaping.go``, ``cel/limits.go``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from kapi.cel import types as t
from kapi.cel.errors import EvaluationError
from kapi.cel.sizes import Range, SizeOf
from kapi.cel.times import Duration, Timestamp
from kapi.cel.types import CelType, StructField, StructType
from kapi.cel.values import MapList, SetList
from kapi.machinery.checkpoint import steps
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Tree
from kapi.schema.structural.structure import Schema, additional, embedded, int_or_string, required_properties

MAX_REQUEST_BYTES = 3 * 1024 * 1024
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void while".split()  # noqa: E501
)
_ESCAPE = re.compile(r"__([^_]+)__")
_ESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}
_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_META_STRINGS: Schema = {"type": "string"}
Convert = Callable[[Tree], Tree]


def escape(name: str) -> str | None:
    """A property's name in expressions; None when it cannot be written there."""
    if name in _RESERVED:
        return f"__{name}__"
    out: list[str] = []
    position = 0
    while position < len(name):
        char = name[position]
        if name.startswith("__", position):
            out.append("__underscores__")
            position += 2
            continue
        if char == ".":
            out.append("__dot__")
        elif char == "-":
            out.append("__dash__")
        elif char == "/":
            out.append("__slash__")
        elif char.isascii() and (char.isalnum() or char == "_"):
            out.append(char)
        else:
            return None
        position += 1
    text = "".join(out)
    return text if _IDENTIFIER.fullmatch(text) else None


def unescape(name: str) -> str | None:
    """The property's name of a name in expressions; None when it has an escape that there is not."""
    for found in _ESCAPE.finditer(name) if "__" in name else ():
        if found[1] not in _ESCAPES and not (found[1] in _RESERVED and found[0] == name):
            return None
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), name)


class DeclType:
    """The declaration of a schema (upstream: ``DeclType``): CEL type, limits, and the conversion of values.

    ``min_serialized_size`` is in bytes; ``max_elements`` is the largest length of a string, list or map.
    """

    __slots__ = ("type", "min_serialized_size", "max_elements", "elem", "fields", "convert")

    def __init__(self, type: CelType, min_serialized_size: int, max_elements: int = 0) -> None:
        self.type = type
        self.min_serialized_size = min_serialized_size
        self.max_elements = max_elements
        self.elem: DeclType | None = None
        self.fields: dict[str, DeclType] = {}
        self.convert: Convert | None = None


def with_metadata(schema: Schema) -> Schema:
    """The schema of a whole object: expressions see its kind, apiVersion, metadata.name and generateName.

    A schema that declares all of them stays as it is, with the limits that it sets.
    """
    properties = dict(schema.get("properties") or {})
    declared = (properties.get("metadata") or {}).get("properties") or {}
    texts = [properties.get("kind"), properties.get("apiVersion"), declared.get("name"), declared.get("generateName")]
    if all(text and text.get("type") == "string" for text in texts) and properties["metadata"].get("type") == "object":
        return schema
    properties["kind"] = properties["apiVersion"] = _META_STRINGS
    properties["metadata"] = {"type": "object", "properties": {"name": _META_STRINGS, "generateName": _META_STRINGS}}
    return {**schema, "properties": properties}


def declare(schema: Schema, is_root: bool = False) -> DeclType | None:
    """The declaration of a schema; None when expressions cannot access its values."""
    if int_or_string(schema):
        length = schema.get("maxLength")
        return DeclType(t.DYN, 1, max(length, 0) * 4 if length is not None else MAX_REQUEST_BYTES - 2)
    if is_root:
        schema = with_metadata(schema)
    type_ = schema.get("type")
    if type_ == "array":
        return _array(schema)
    if type_ == "object":
        extra = additional(schema)
        return _map(schema, extra) if extra is not None else _struct(schema)
    if type_ == "string":
        return _string(schema)
    if type_ == "boolean":
        return DeclType(t.BOOL, 4, 0)
    if type_ == "number":
        found = DeclType(t.DOUBLE, 1, 0)
        found.convert = _to_double
        return found
    if type_ == "integer":
        found = DeclType(t.INT, 1, 0)
        found.convert = _to_int
        return found
    return None


def _array(schema: Schema) -> DeclType | None:
    items = schema.get("items")
    elem = declare(items, embedded(items)) if isinstance(items, dict) else None
    if elem is None:
        return None
    most = schema.get("maxItems")
    found = DeclType(
        t.list_of(elem.type),
        2,
        max(most, 0) if most is not None else (MAX_REQUEST_BYTES - 2) // (elem.min_serialized_size + 1),
    )
    found.elem = elem
    found.convert = _list_converter(schema, elem.convert)
    return found


def _map(schema: Schema, extra: Schema) -> DeclType | None:
    elem = declare(extra, embedded(extra))
    if elem is None:
        return None
    most = schema.get("maxProperties")
    found = DeclType(
        t.map_of(t.STRING, elem.type),
        2,
        max(most, 0) if most is not None else (MAX_REQUEST_BYTES - 2) // (elem.min_serialized_size + 6),
    )
    found.elem = elem
    if elem.convert is not None:
        found.convert = _map_converter(elem.convert)
    return found


_counter = 0


def _struct(schema: Schema) -> DeclType:
    global _counter
    _counter += 1
    properties = schema.get("properties") or {}
    required = required_properties(schema)
    struct = StructType(f"object{_counter}")
    found = DeclType(struct, 2)
    for name, prop in steps(properties.items(), 8):
        field = declare(prop, embedded(prop))
        if field is None:
            continue
        escaped = escape(name)
        if escaped is not None:
            struct.fields[escaped] = StructField(name, field.type, field.convert, null_is_absent=True)
            found.fields[escaped] = field
            if name in _RESERVED:  # after a dot the unescaped name is valid too
                struct.fields[name] = struct.fields[escaped]
                found.fields[name] = field
        if name in required and prop.get("default") is None:
            found.min_serialized_size += len(name.encode()) + field.min_serialized_size + 4
    return found


def _string(schema: Schema) -> DeclType:
    format_, length = schema.get("format"), schema.get("maxLength")
    if format_ == "byte":
        found = DeclType(t.BYTES, 2, max(length, 0) if length is not None else MAX_REQUEST_BYTES - 2)
        found.convert = _to_bytes
    elif format_ == "duration":
        found = DeclType(t.DURATION, 3, 32)
        found.convert = _to_duration
    elif format_ == "date":
        found = DeclType(t.TIMESTAMP, 12, 12)
        found.convert = _to_date
    elif format_ == "date-time":
        found = DeclType(t.TIMESTAMP, 21, 32)
        found.convert = _to_timestamp
    elif length is not None:
        found = DeclType(t.STRING, 2, max(length, 0) * 4)
    elif schema.get("enum"):
        found = DeclType(
            t.STRING, 2, max((len(item.encode()) for item in schema["enum"] if isinstance(item, str)), default=0)
        )
    else:
        found = DeclType(t.STRING, 2, MAX_REQUEST_BYTES - 2)
    return found


# values


def _to_double(value: object) -> Tree:
    return float(value) if value.__class__ is int else value


def _to_int(value: object) -> Tree:
    return int(value) if value.__class__ is float and value.is_integer() else value


def _to_bytes(value: object) -> Tree:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError("illegal base64 data") from None


def _to_duration(value: object) -> Tree:
    if not isinstance(value, str):
        return value
    try:
        return Duration.parse(value)
    except ValueError:
        raise EvaluationError(f"Invalid duration {value}") from None


def _to_timestamp(value: object) -> Tree:
    if not isinstance(value, str):
        return value
    try:
        return Timestamp.parse(value)
    except ValueError:
        raise EvaluationError(f"Invalid date-time {value}") from None


def _to_date(value: object) -> Tree:
    return _to_timestamp(value + "T00:00:00Z") if isinstance(value, str) else value


def _list_converter(schema: Schema, elem: Convert | None) -> Convert | None:
    kind = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())

    def convert(value: object) -> Tree:
        if not isinstance(value, list):
            return value
        items = value if elem is None else [elem(item) for item in elements(value)]
        if kind == "set":
            return SetList(items)
        if kind == "map":
            return MapList(items, keys)
        return items

    return None if elem is None and kind not in ("set", "map") else convert


def _map_converter(elem: Convert) -> Convert:
    def convert(value: object) -> Tree:
        return {key: elem(item) for key, item in entries(value)} if isinstance(value, dict) else value

    return convert


def sizes(root: DeclType) -> SizeOf:
    """A function that returns the declared size at a path below a variable of the root's type."""

    def size_of(path: tuple[str, ...], type_: CelType) -> Range | None:
        if not path:
            return None
        node: DeclType | None = root
        for name in path[1:]:
            assert node is not None
            if name in ("@items", "@values"):
                node = node.elem
            elif name == "@keys":
                node = _KEY if node.type.kind == "map" else None
            else:
                node = node.fields.get(name)
            if node is None:
                return None
        assert node is not None
        return Range(0, node.max_elements)

    return size_of


_KEY = DeclType(t.STRING, 2)  # upstream's key type declares no size, so keys cost nothing
