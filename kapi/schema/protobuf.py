"""Decoding of protobuf bodies, which client-go's typed clients (and ``kubectl create``) send for built-in types.

A message becomes the same tree that the object's JSON has, so that later stages need not distinguish them.  The encoder is in
``protobuf_writing.py``.  Field numbers are in ``proto_numbers.txt`` and ``added_definitions.json``; everything else follows
from the OpenAPI definitions.
Upstream: apimachinery ``runtime/serializer/protobuf``; https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import base64
import functools
import re
import struct
from pathlib import Path
from typing import NamedTuple

from kapi.codecs import json_reading
from kapi.machinery import time
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.tree import Object, Tree
from kapi.schema import derive
from kapi.schema.builtin import definitions, names_by_kind
from kapi.schema.protobuf_wire import (
    BYTES,
    FIXED64,
    VARINT,
    ProtobufError,
    Reader,
    Slot,
    Value,
    entry,
    fields,
    read_varint,
)

MAGIC = b"k8s\x00"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_MAX_DEPTH = 100  # messages inside each other


class Envelope(NamedTuple):
    """The envelope of an object (``runtime.Unknown``): its type and its bytes."""

    api_version: str
    kind: str
    raw: bytes


def envelope(data: bytes) -> Envelope:
    """The envelope of a body; its content type and encoding are ignored, as upstream.  Raises ProtobufError."""
    if not data:
        raise ProtobufError("empty data")
    if not data.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if len(data) == len(MAGIC):
        raise ProtobufError("empty body")
    parts = _parts(data[len(MAGIC) :], _UNKNOWN)
    meta = parts.get("meta", b"")
    types = _parts(meta, _TYPE_META)
    version, kind = (_text(types.get(name, b""), 0) for name in ("apiVersion", "kind"))
    return Envelope(version, kind, parts.get("raw", b""))


def kind_in(body: Envelope, expected: GroupVersionKind) -> GroupVersionKind:
    """The kind in an envelope; missing parts are taken from the expected kind."""
    try:
        group, version = GroupVersion.parse(body.api_version)
    except ValueError:
        group = version = ""
    if not version:
        group, version = expected.group_version
    return GroupVersionKind(group, version, body.kind or expected.kind)


def decode(data: bytes, expected: GroupVersionKind) -> Object:
    """The tree of a body; ``expected`` is its kind if the envelope names none.  Raises ProtobufError."""
    body = envelope(data)
    return decode_message(body, kind_in(body, expected))


def is_known(kind: GroupVersionKind) -> bool:
    """Whether a kind has a protobuf form."""
    return names_by_kind().get(kind) in numbers()


def decode_message(body: Envelope, kind: GroupVersionKind) -> Object:
    """The tree of an object of ``kind`` with kind and apiVersion.

    Raises ProtobufError, also for a kind that has no protobuf form (custom resources).
    """
    if not is_known(kind):
        raise ProtobufError(f"no protobuf form of kind {kind.kind!r} in {kind.group_version}")
    tree = _message(names_by_kind()[kind], body.raw, _MAX_DEPTH)
    return {"kind": kind.kind, "apiVersion": str(kind.group_version), **tree}


@functools.cache
def numbers() -> dict[str, dict[str, int]]:
    """Definition -> field (or >message) -> number."""
    text = (Path(__file__).parent / "proto_numbers.txt").read_text()
    found = {
        name: {field: int(number) for field, _, number in (entry.rpartition("=") for entry in entries)}
        for name, entries in derive.read_entries(text).items()
    }
    for definition, more in derive.added_definitions().items():
        fields = more["properties"].items()
        found.setdefault(definition, {}).update(
            (field, schema["protobuf"]) for field, schema in fields if "protobuf" in schema
        )
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
            slots[number] = Slot(inner.rpartition(".")[2], BYTES, "", _inline_reader(made, inner), "inline")
        elif field.startswith("*"):
            field = field[1:]
            slots[number] = Slot(
                _go_name(field, {}), BYTES, field, _items_reader(properties[field]["items"]), "message"
            )
        elif field in properties:
            slots[number] = _slot(field, properties[field])
    return slots


def _inline_reader(slots: dict[int, Slot], name: str) -> Reader:
    return lambda value, depth: _read(slots, value, depth - 1, name)


def _slot(field: str, schema: Object) -> Slot:
    go_name = _go_name(field, schema)
    if schema.get("type") == "array":
        read, wire = _reader(schema["items"])
        return Slot(go_name, wire, field, read, "numbers" if wire == VARINT else "list")
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return Slot(go_name, BYTES, field, _map_reader(schema["additionalProperties"]), "map")
    read, wire = _reader(schema)
    reference = _reference(schema)
    return Slot(go_name, wire, field, read, "message" if reference and reference not in _REPLACED else "one")


def _reference(schema: Object) -> str:
    """The definition that a property refers to, or ""."""
    (outer,) = schema.get("allOf") or (schema,)
    return str(outer.get("$ref", "")).rpartition("/")[2]


#: words that are upper case in Go's names of fields
_INITIALISMS = frozenset(
    "api aws ca cidr cpu csi dns fc fqdn fs gce gid grpc http id ip iscsi json nfs os pd rbd se tcp tls ttl udp uid uri url "
    "vm".split()
)
_FIRST_WORD = re.compile("[a-z]+")


def _go_name(field: str, schema: Object) -> str:
    """The name of a field in Go."""
    if field == "metadata":
        return _reference(schema).rpartition(".")[2] or "ObjectMeta"
    found = _FIRST_WORD.match(field)
    word = found[0] if found else ""
    return word.upper() + field[len(word) :] if word in _INITIALISMS else field[:1].upper() + field[1:]


def _map_reader(schema: Object) -> Reader:
    if schema.get("type") == "array":
        read = _items_reader(schema["items"])
    else:
        read, wire = _reader(schema)
        assert wire == BYTES, "no map of the API has numbers as its values"
    key_slot, value_slot = Slot("Key", BYTES), Slot("Value", BYTES)

    def pair(value: Value, depth: int) -> tuple[str, Tree]:
        key, found = b"", b""
        for slot, part in entry(value, key_slot, value_slot):
            if slot is key_slot:
                key = part
            else:
                found = part
        return _text(key, depth), read(found, depth)

    return pair


def _items_reader(schema: Object) -> Reader:
    """A list as the value of a map or of a field (Verbs) is a message with the repeated field ``items``."""
    read, wire = _reader(schema)
    slots = {1: Slot("Items", wire)}
    return lambda value, depth: [read(inner, depth) for _, inner in fields(value, "Items", slots)]


def _reader(schema: Object) -> tuple[Reader, int]:
    """The decoder of a value, and its wire type."""
    name = _reference(schema)
    if name:
        special = _SPECIAL.get(name)
        if special is not None:
            return special, BYTES
        return lambda value, depth: _message(name, value, depth), BYTES
    kind, form = schema.get("type"), schema.get("format")
    if kind == "string":
        return (_base64 if form == "byte" else _text), BYTES
    if kind == "integer":
        return (_int32 if form == "int32" else _integer), VARINT
    if kind == "boolean":
        return (lambda value, depth: bool(value)), VARINT
    if kind == "number":
        return _double, FIXED64
    return _raw_json, BYTES


def _message(name: str, data: bytes, depth: int) -> Object:
    if depth <= 0:
        raise ProtobufError("the message is nested too deeply")
    return _read(_slots(name), data, depth - 1, name)


def _read(slots: dict[int, Slot], data: bytes, depth: int, name: str) -> Object:
    tree: Object = {}
    merged: dict[str, bytes] = {}  # the bytes of a message so far: those of a further one are merged into it
    for slot, value in fields(data, name.rpartition(".")[2], slots):
        read, form = slot.read, slot.form
        assert read is not None
        if form == "list":
            tree.setdefault(slot.name, []).append(read(value, depth))
        elif form == "map":
            key, item = read(value, depth)
            tree.setdefault(slot.name, {})[key] = item
        elif form == "numbers":
            items = tree.setdefault(slot.name, [])
            items.extend(read(item, depth) for item in (_packed(value) if isinstance(value, bytes) else (value,)))
        elif form == "one":
            tree[slot.name] = read(value, depth)
        else:
            whole = merged[slot.go_name] = merged.get(slot.go_name, b"") + value
            if form == "inline":
                tree.update(read(whole, depth))
            else:
                tree[slot.name] = read(whole, depth)
    return tree


def _packed(data: bytes) -> list[int]:
    found, position = [], 0
    while position < len(data):
        value, position = read_varint(data, position)
        found.append(value)
    return found


def _text(value: Value, depth: int) -> str:
    """A string; each byte of invalid UTF-8 becomes U+FFFD, which is what Go writes in JSON."""
    return json_reading.text_of(value)


def _base64(value: Value, depth: int) -> str:
    return base64.b64encode(value).decode()


def _integer(value: Value, depth: int) -> int:
    number: int = value
    return number - (1 << 64) if number >= 1 << 63 else number


def _int32(value: Value, depth: int) -> int:
    number: int = value & 0xFFFFFFFF
    return number - (1 << 32) if number >= 1 << 31 else number


def _double(value: Value, depth: int) -> float:
    return float(struct.unpack("<d", value)[0])


class _Parts(NamedTuple):
    """A message with a special form in JSON."""

    name: str
    slots: dict[int, Slot]


_UNKNOWN = _Parts(
    "Unknown",
    {
        1: Slot("TypeMeta", BYTES, "meta", None, "message"),
        2: Slot("Raw", BYTES, "raw"),
        3: Slot("ContentEncoding", BYTES, "encoding"),
        4: Slot("ContentType", BYTES, "type"),
    },
)
_TYPE_META = _Parts("TypeMeta", {1: Slot("APIVersion", BYTES, "apiVersion"), 2: Slot("Kind", BYTES, "kind")})
_RAW = _Parts("RawExtension", {1: Slot("Raw", BYTES, "raw")})
_QUANTITY = _Parts("Quantity", {1: Slot("String_", BYTES, "text")})
_INT_OR_STRING = _Parts(
    "IntOrString", {1: Slot("Type", VARINT, "type"), 2: Slot("IntVal", VARINT, "int"), 3: Slot("StrVal", BYTES, "text")}
)
_TIMESTAMP = _Parts("Timestamp", {1: Slot("Seconds", VARINT, "seconds"), 2: Slot("Nanos", VARINT, "nanos")})
_DURATION = _Parts("Duration", {1: Slot("Duration", VARINT, "duration")})
_OR_BOOL = _Parts(
    "JSONSchemaPropsOrBool", {1: Slot("Allows", VARINT, "allows"), 2: Slot("Schema", BYTES, "schema", None, "message")}
)


def _parts(data: bytes, message: _Parts) -> dict[str, Value]:
    """The fields of a message by name."""
    found: dict[str, Value] = {}
    for slot, value in fields(data, message.name, message.slots):
        found[slot.name] = found[slot.name] + value if slot.form == "message" and slot.name in found else value
    return found


def _raw_json(value: Value, depth: int) -> Tree:
    """A type whose first field contains JSON."""
    text = _parts(value, _RAW).get("raw")
    return json_reading.loads(text) if text else None


def _quantity(value: Value, depth: int) -> str:
    return _text(_parts(value, _QUANTITY).get("text", b"0"), depth)


def _int_or_string(value: Value, depth: int) -> int | str:
    parts = _parts(value, _INT_OR_STRING)
    if parts.get("type"):
        return _text(parts.get("text", b""), depth)
    return _int32(parts.get("int", 0), depth)


def _moment(value: Value) -> tuple[int, int] | None:
    """(unix seconds, nanoseconds), both as sent; None for Go's zero time."""
    if not value:
        return None
    parts = _parts(value, _TIMESTAMP)
    return _integer(parts.get("seconds", 0), 0), _int32(parts.get("nanos", 0), 0)


def _time(value: Value, depth: int) -> str | None:
    moment = _moment(value)
    if moment is None or moment[0] == time.ZERO_SECONDS:
        return None
    return _shown(f"{time.of_unix(moment[0])}Z")  # upstream ignores the nanoseconds


def _micro_time(value: Value, depth: int) -> str | None:
    moment = _moment(value)
    if moment is None:
        return None
    # upstream truncates to microseconds towards zero, then carries whole seconds
    more, micros = divmod(int(moment[1] / 1000), 1_000_000)
    seconds = moment[0] + more
    return None if (seconds, micros) == (time.ZERO_SECONDS, 0) else _shown(f"{time.of_unix(seconds)}.{micros:06d}Z")


def _shown(moment: str) -> str:
    return moment if moment[4] == "-" else time.AnyYear(moment)


def _duration(value: Value, depth: int) -> str:
    """A duration in Go's form."""
    nanos = _integer(_parts(value, _DURATION).get("duration", 0), depth)
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
    parts = _parts(value, _OR_BOOL)
    if "schema" in parts:
        return _message(_CRD + "JSONSchemaProps", parts["schema"], depth)
    return bool(parts.get("allows"))


def _schema_or_several(message: str, plural: str, read: Reader) -> Reader:
    """JSONSchemaPropsOrArray, JSONSchemaPropsOrStringArray: a schema, or a list."""
    schema = Slot("Schema", BYTES)
    slots = {1: schema, 2: Slot(plural, BYTES)}

    def either(value: Value, depth: int) -> Tree:
        found = list(fields(value, message, slots))
        if any(slot is schema for slot, _ in found):
            whole = b"".join([inner for slot, inner in found if slot is schema])
            return _message(_CRD + "JSONSchemaProps", whole, depth)
        return [read(inner, depth) for _, inner in found]

    return either


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
    _CRD + "JSONSchemaPropsOrArray": _schema_or_several(
        "JSONSchemaPropsOrArray", "JSONSchemas", lambda value, depth: _message(_CRD + "JSONSchemaProps", value, depth)
    ),
    _CRD + "JSONSchemaPropsOrStringArray": _schema_or_several("JSONSchemaPropsOrStringArray", "Property", _text),
}
#: types for which a further value replaces the previous one
_REPLACED = frozenset((_META + "Time", _META + "MicroTime"))
