"""Decoding of protobuf bodies, which client-go's typed clients (and ``kubectl create``) send for built-in types.

A message becomes the same tree that the object's JSON has, so that later stages need not distinguish them.  The encoder is in
``protobuf_writing.py``.  Field numbers are in ``proto_numbers.txt``; everything else follows from the OpenAPI definitions.
Upstream: apimachinery ``runtime/serializer/protobuf``; https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kapi.codecs import json_reading
from kapi.machinery import time
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object, Tree
from kapi.schema.builtin import definitions, names_by_kind
from kapi.schema.protobuf_wire import BYTES, ProtobufError, Value, fields, raw, read_varint

MAGIC = b"k8s\x00"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_MAX_DEPTH = 100  # messages inside each other


class Envelope(NamedTuple):
    """The envelope of an object (``runtime.Unknown``): its type and its bytes."""

    api_version: str
    kind: str
    raw: bytes
    content_type: str


Reader = Callable[[Value, int], Tree]


class Slot(NamedTuple):
    """How a field is decoded: its JSON name, the decoder of a value, and whether it repeats."""

    name: str
    read: Reader
    kind: str  # "one", "list", "map" or "inline"


def envelope(data: bytes) -> Envelope:
    """The envelope of a body.  Raises ProtobufError."""
    if not data.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    version = kind = content_type = ""
    raw = b""
    for number, _, value in fields(data[len(MAGIC) :]):
        if not isinstance(value, bytes):
            raise ProtobufError("runtime.Unknown: wrong wireType")
        if number == 1:
            for inner, _, text in fields(value):
                if inner == 1:
                    version = _text(text, 0)
                elif inner == 2:
                    kind = _text(text, 0)
        elif number == 2:
            raw = value
        elif number == 4:
            content_type = _text(value, 0)
    return Envelope(version, kind, raw, content_type)


def decode(data: bytes, expected: GroupVersionKind) -> Object:
    """The tree of a body with kind and apiVersion; ``expected`` is its kind if the envelope names none.

    Raises ProtobufError, also for a type that has no protobuf form (custom resources).
    """
    body = envelope(data)
    if body.content_type and body.content_type != "application/json" and "protobuf" not in body.content_type:
        raise ProtobufError(f"unrecognized content type {body.content_type!r}")
    group, _, version = body.api_version.rpartition("/")
    kind = GroupVersionKind(group, version, body.kind) if body.kind and body.api_version else expected
    if body.content_type == "application/json":
        tree = json_reading.loads(body.raw)
        if not isinstance(tree, dict):
            raise ProtobufError("the enclosed JSON is no object")
    else:
        name = names_by_kind().get(kind)
        if name is None or name not in numbers():
            raise ProtobufError(f"no protobuf form of kind {kind.kind!r} in {kind.group_version}")
        tree = _message(name, body.raw, _MAX_DEPTH)
    return {"kind": kind.kind, "apiVersion": str(kind.group_version), **tree}


@functools.cache
def numbers() -> dict[str, dict[str, int]]:
    """Definition -> field (or >message) -> number."""
    found: dict[str, dict[str, int]] = {}
    package = ""
    for line in (Path(__file__).parent / "proto_numbers.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            package = line.strip("[]")
            continue
        name, *entries = line.split()
        found[f"{package}.{name}"] = {
            field: int(number) for field, _, number in (entry.rpartition("=") for entry in entries)
        }
    return found


@functools.cache
def _slots(name: str) -> dict[int, Slot]:
    """The fields of a message, by number."""
    properties: Object = definitions().get(name, {}).get("properties", {})
    return _make_slots(name, numbers()[name], properties)


def _make_slots(name: str, known: dict[str, int], properties: Object) -> dict[int, Slot]:
    slots = {}
    package = name.rpartition(".")[0]
    for field, number in known.items():
        if field.startswith(">"):
            inner = field[1:] if "." in field else f"{package}.{field[1:]}"
            made = _make_slots(inner, numbers()[inner], properties)
            slots[number] = Slot("", _inline_reader(made, inner), "inline")
        elif field in properties:
            slots[number] = _slot(field, properties[field])
    return slots


def _inline_reader(slots: dict[int, Slot], name: str) -> Reader:
    return lambda value, depth: _read(slots, raw(value), depth - 1, name)


def _slot(field: str, schema: Object) -> Slot:
    if schema.get("type") == "array":
        return Slot(field, _reader(schema["items"]), "list")
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return Slot(field, _map_reader(schema["additionalProperties"]), "map")
    return Slot(field, _reader(schema), "one")


def _map_reader(schema: Object) -> Reader:
    read = _items_reader(schema["items"]) if schema.get("type") == "array" else _reader(schema)

    def entry(value: Value, depth: int) -> tuple[str, Tree]:
        key: str = ""
        found: Tree = None
        seen = False
        for number, _, inner in fields(raw(value)):
            if number == 1:
                key = _text(inner, depth)
            elif number == 2:
                found, seen = read(inner, depth), True
        return key, found if seen else ("" if schema.get("type") == "string" else {})

    return entry


def _items_reader(schema: Object) -> Reader:
    """A list as a map's value is a message with the repeated field ``items``."""
    read = _reader(schema)
    return lambda value, depth: [read(inner, depth) for number, _, inner in fields(raw(value)) if number == 1]


def _reader(schema: Object) -> Reader:
    reference = schema.get("$ref", "")
    if reference:
        name = reference.rpartition("/")[2]
        special = _SPECIAL.get(name)
        if special is not None:
            return special
        return lambda value, depth: _message(name, raw(value), depth)
    kind, form = schema.get("type"), schema.get("format")
    if kind == "string":
        return _base64 if form == "byte" else _text
    if kind == "integer":
        return _integer
    if kind == "boolean":
        return lambda value, depth: bool(value)
    if kind == "number":
        return _double
    return _raw_json


def _message(name: str, data: bytes, depth: int) -> Object:
    if depth <= 0:
        raise ProtobufError("the message is nested too deeply")
    return _read(_slots(name), data, depth - 1, name)


def _read(slots: dict[int, Slot], data: bytes, depth: int, name: str) -> Object:
    tree: Object = {}
    for number, wire, value in fields(data):
        slot = slots.get(number)
        if slot is None:
            continue  # a field of a newer version
        try:
            if slot.kind == "list":
                items = tree.setdefault(slot.name, [])
                if wire == BYTES and slot.read is _integer:
                    items.extend(_packed(raw(value)))
                else:
                    items.append(slot.read(value, depth))
            elif slot.kind == "map":
                key, item = slot.read(value, depth)
                tree.setdefault(slot.name, {})[key] = item
            elif slot.kind == "inline":
                tree.update(slot.read(value, depth))
            else:
                tree[slot.name] = slot.read(value, depth)
        except (TypeError, UnicodeDecodeError, OverflowError, struct.error) as error:
            raise ProtobufError(f"{name.rpartition('.')[2]}.{slot.name}: {error}") from None
    return tree


def _packed(data: bytes) -> list[int]:
    found, position = [], 0
    while position < len(data):
        value, position = read_varint(data, position)
        found.append(_integer(value, 0))
    return found


def _text(value: Value, depth: int) -> str:
    return raw(value).decode()


def _base64(value: Value, depth: int) -> str:
    return base64.b64encode(raw(value)).decode()


def _integer(value: Value, depth: int) -> int:
    if isinstance(value, bytes):
        raise ProtobufError("wrong wireType for an integer")
    return value - (1 << 64) if value >= 1 << 63 else value


def _double(value: Value, depth: int) -> float:
    data = raw(value)
    return float(struct.unpack("<d" if len(data) == 8 else "<f", data)[0])


def _raw_json(value: Value, depth: int) -> Tree:
    """A type whose first field contains JSON."""
    for number, _, inner in fields(raw(value)):
        if number == 1 and inner:
            return json_reading.loads(raw(inner))
    return None


def _one(value: Value) -> dict[int, Value]:
    return {number: inner for number, _, inner in fields(raw(value))}


def _quantity(value: Value, depth: int) -> str:
    return _text(_one(value).get(1, b""), depth)


def _int_or_string(value: Value, depth: int) -> int | str:
    parts = _one(value)
    if parts.get(1, 0):
        return _text(parts.get(3, b""), depth)
    return _integer(parts.get(2, 0), depth)


def _moment(value: Value) -> tuple[int, int] | None:
    """(unix seconds, nanoseconds), both as sent; None for Go's zero time."""
    parts = _one(value)
    if not parts:
        return None
    return _integer(parts.get(1, 0), 0), _integer(parts.get(2, 0), 0)


def _time(value: Value, depth: int) -> str | None:
    moment = _moment(value)
    if moment is None or moment[0] == time.ZERO_SECONDS:
        return None
    return f"{time.of_unix(moment[0])}Z"  # upstream ignores the nanoseconds


def _micro_time(value: Value, depth: int) -> str | None:
    moment = _moment(value)
    if moment is None:
        return None
    # upstream truncates to microseconds towards zero, then carries whole seconds
    more, micros = divmod(int(moment[1] / 1000), 1_000_000)
    seconds = moment[0] + more
    return None if (seconds, micros) == (time.ZERO_SECONDS, 0) else f"{time.of_unix(seconds)}.{micros:06d}Z"


def _duration(value: Value, depth: int) -> str:
    """A duration in Go's form."""
    nanos = _integer(_one(value).get(1, 0), depth)
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    if not nanos:
        return "0s"
    if nanos < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1000), ("ns", 1)):
            if nanos >= size:
                return f"{sign}{_trim(nanos, size)}{unit}"
    minutes, rest = divmod(nanos, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{text}{_trim(rest, 1_000_000_000)}s"


def _trim(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    digits = str(rest).rjust(len(str(size)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def _schema_or(value: Value, depth: int) -> Tree:
    """JSONSchemaPropsOrBool."""
    parts = _one(value)
    if 2 in parts:
        return _message(_CRD + "JSONSchemaProps", raw(parts[2]), depth)
    return bool(parts.get(1, 0))


def _schema_or_list(value: Value, depth: int) -> Tree:
    """JSONSchemaPropsOrArray, JSONSchemaPropsOrStringArray."""
    several: list[Tree] = []
    for number, _, inner in fields(raw(value)):
        if number == 1:
            return _message(_CRD + "JSONSchemaProps", raw(inner), depth)
        several.append(_message(_CRD + "JSONSchemaProps", raw(inner), depth))
    return several


def _schema_or_strings(value: Value, depth: int) -> Tree:
    texts: list[Tree] = []
    for number, _, inner in fields(raw(value)):
        if number == 1:
            return _message(_CRD + "JSONSchemaProps", raw(inner), depth)
        texts.append(_text(inner, depth))
    return texts


_SPECIAL: dict[str, Reader] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    _META + "Time": _time,
    _META + "MicroTime": _micro_time,
    _META + "Duration": _duration,
    _META + "FieldsV1": _raw_json,
    _CRD + "JSON": _raw_json,
    _CRD + "JSONSchemaPropsOrBool": _schema_or,
    _CRD + "JSONSchemaPropsOrArray": _schema_or_list,
    _CRD + "JSONSchemaPropsOrStringArray": _schema_or_strings,
}
