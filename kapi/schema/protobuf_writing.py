"""Encoding of JSON trees as protobuf, with the same bytes as Go.

Fields are written in the order of their numbers.  Fields that Go holds by value are always written, even when they are empty;
pointers, lists, maps and bytes only when they are set.  Maps are sorted by key.
Upstream: ``generated.pb.go`` of each API package, apimachinery ``runtime/serializer/protobuf``.
"""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kapi.machinery import time
from kapi.machinery.each import elements
from kapi.machinery.golang import nanoseconds
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.raw import text_of
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Tree
from kapi.schema import builtin
from kapi.schema.protobuf import MAGIC, numbers
from kapi.schema.types import Field, Kind, Type

Object = Mapping[str, Tree]
#: the payload of a field of wire type 2, or the varint of one of wire type 0
Write = Callable[[Tree], bytes]
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_VARINT, _FIXED64, _BYTES = 0, 1, 2


class _Slot(NamedTuple):
    """The encoding of one field of a message."""

    name: str  # in JSON; empty for a message whose fields belong to the one around it
    tag: bytes
    form: int  # _TEXT, _FRAMED ...
    write: Write
    empty: bytes | None  # bytes for an unset value, with the tag; None: not written


#: forms of a field: a string, a payload after its length, a number; a list of payloads or numbers, a map
_TEXT, _FRAMED, _NUMBER, _FRAMED_LIST, _NUMBER_LIST, _MAP = range(6)


class NoProtobuf(Exception):
    """The kind has no protobuf form: custom resources, Tables."""


def encode(obj: Object, kind: GroupVersionKind) -> bytes:
    """An object with its envelope.  Raises NoProtobuf."""
    return envelope(kind, message_of(kind)(obj))


def encode_tree(tree: Object) -> bytes:
    """An object by its own ``apiVersion`` and ``kind``.  Raises NoProtobuf."""
    return encode(tree, kind_of(tree))


def kind_of(tree: Object) -> GroupVersionKind:
    group, _, version = str(tree.get("apiVersion", "")).rpartition("/")
    return GroupVersionKind(group, version, str(tree.get("kind", "")))


def envelope(kind: GroupVersionKind, raw: bytes) -> bytes:
    """The message of an object or a list with its envelope."""
    head, tail = envelope_parts(kind, len(raw))
    return b"".join((head, raw, tail))


def envelope_parts(kind: GroupVersionKind, size: int) -> tuple[bytes, bytes]:
    """The bytes of the envelope before and after a message of ``size`` bytes."""
    return _head(kind) + varint(size), b"\x1a\x00\x22\x00"


@functools.lru_cache(1024)
def _head(kind: GroupVersionKind) -> bytes:
    version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    meta = b"\x0a" + _framed(version.encode()) + b"\x12" + _framed(kind.kind.encode())
    return MAGIC + b"\x0a" + _framed(meta) + b"\x12"


#: answers of /api and /api/v1, which have no version
_NO_VERSION = frozenset((GroupVersionKind("", "", "APIVersions"), GroupVersionKind("", "", "APIResourceList")))


@functools.lru_cache(1024)
def message_of(kind: GroupVersionKind) -> Write:
    """The function that encodes objects of a kind.  Raises NoProtobuf."""
    if kind.group == "meta.k8s.io":
        if kind.kind == "PartialObjectMetadata":
            return _partial
        if kind.kind == "PartialObjectMetadataList":
            return _partial_list if kind.version == "v1" else _partial_list_beta
    if kind in _NO_VERSION:
        kind = kind._replace(version="v1")
    name = builtin.names_by_kind().get(kind)
    if name is None or name not in numbers():
        raise NoProtobuf(str(kind))
    return _message(name)


def _partial(obj: Object) -> bytes:
    return b"\x0a" + _framed(_message(_META + "ObjectMeta")(obj.get("metadata")))


def _partial_list(obj: Object) -> bytes:
    return list_head(obj.get("metadata") or {}) + b"".join(
        item_of_list(_partial(item)) for item in obj.get("items") or ()
    )


def _partial_list_beta(obj: Object) -> bytes:
    """As in v1beta1, where the items are the first field."""
    items = b"".join(b"\x0a" + _framed(_partial(item)) for item in obj.get("items") or ())
    return items + b"\x12" + _framed(_message(_META + "ListMeta")(obj.get("metadata") or {}))


def list_head(meta: Object) -> bytes:
    """The first bytes of a list's message; its items follow (``item_of_list``)."""
    return b"\x0a" + _framed(_message(_META + "ListMeta")(meta))


def item_of_list(message: bytes) -> bytes:
    return b"\x12" + _framed(message)


def watch_frame(event: str, obj: bytes) -> bytes:
    """An event of a watch: its length in four bytes, and a WatchEvent around an object with its envelope."""
    message = b"\x0a" + _framed(event.encode()) + b"\x12" + _framed(b"\x0a" + _framed(obj))
    return len(message).to_bytes(4) + message


def varint(value: int) -> bytes:
    """An unsigned number; negative ones are taken as 64 bits."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes((value,)) for value in range(0x80)]


def _framed(payload: bytes) -> bytes:
    return varint(len(payload)) + payload


@functools.cache
def _message(name: str) -> Write:
    special = _SPECIAL.get(name.rpartition(".")[2])
    if special is not None:
        return special
    slots: list[_Slot] = []

    def write(obj: Tree) -> bytes:
        if not slots:  # made on first use, since types may contain themselves
            slots.extend(_slots(numbers()[name], builtin.definition(name), name.rpartition(".")[0]))
        return _fields(slots, obj or {})

    return write


def _fields(slots: list[_Slot], obj: Object) -> bytes:
    out: list[bytes] = []
    add, get, small = out.append, obj.get, _SMALL
    for name, tag, form, write, empty in slots:
        value: Tree = get(name) if name else obj
        if value is None:
            if empty is not None:
                add(empty)
            continue
        if form == _TEXT:
            payload = value.encode()
        elif form == _FRAMED:
            payload = write(value)
        elif form == _NUMBER:
            add(tag)
            add(write(value))
            continue
        else:
            _several(out, tag, form, write, value)
            continue
        add(tag)
        size = len(payload)
        add(small[size] if size < 0x80 else varint(size))
        add(payload)
    return b"".join(out)


def _several(out: list[bytes], tag: bytes, form: int, write: Write, value: Tree) -> None:
    if form == _NUMBER_LIST:
        for item in value:
            out += (tag, write(item))
        return
    for item in elements(ordered(value.items()) if form == _MAP else value):
        payload = write(item)
        out += (tag, varint(len(payload)), payload)


def _slots(known: Mapping[str, int], type_: Type, package: str) -> list[_Slot]:
    """The fields of a message in their order; fields of embedded messages are fields of ``type_`` in JSON."""
    found = []
    for field, number in sorted(known.items(), key=lambda entry: entry[1]):
        if field.startswith(">"):
            inner = field[1:] if "." in field else f"{package}.{field[1:]}"
            parts = _slots(numbers()[inner], type_, inner.rpartition(".")[0])
            found.append(_Slot("", _tag(number, _BYTES), _FRAMED, functools.partial(_fields, parts), None))
        elif field.startswith("*"):
            elem = type_.fields[field[1:]].type.elem
            assert elem is not None
            found.append(_Slot(field[1:], _tag(number, _BYTES), _FRAMED, _items(elem), None))
        elif field in type_.fields:
            found.append(_slot(number, type_.fields[field]))
    return found


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _slot(number: int, field: Field) -> _Slot:
    type_ = field.type
    if type_.kind is Kind.LIST:
        assert type_.elem is not None
        write, wire = _writer(type_.elem)
        form = _FRAMED_LIST if wire == _BYTES else _NUMBER_LIST
        return _Slot(field.name, _tag(number, wire), form, write, None)
    if type_.kind is Kind.MAP:
        assert type_.elem is not None
        return _Slot(field.name, _tag(number, _BYTES), _MAP, _entry(type_.elem), None)
    write, wire = _writer(type_)
    tag, empty = _tag(number, wire), None
    if not field.pointer and type_.kind is not Kind.BYTES:
        zero = write(_ZEROS[type_.kind])
        empty = tag + (_framed(zero) if wire == _BYTES else zero)
    form = _TEXT if type_.kind is Kind.STRING else _FRAMED if wire == _BYTES else _NUMBER
    return _Slot(field.name, tag, form, write, empty)


def _writer(type_: Type) -> tuple[Write, int]:
    """(the function that encodes a value, its wire type)."""
    if type_.kind is Kind.STRUCT or type_.kind is Kind.ANY:
        return _message(type_.definition), _BYTES
    return _WRITERS[type_.kind]


def _entry(elem: Type) -> Callable[[tuple[str, Tree]], bytes]:
    """One entry of a map: a message of key and value.  A list as value is a message with the repeated field 1."""
    if elem.kind is Kind.LIST:
        assert elem.elem is not None
        write, wire = _items(elem.elem), _BYTES
    else:
        write, wire = _writer(elem)
    tag = _tag(2, wire)

    def entry(pair: tuple[str, Tree]) -> bytes:
        key, value = pair
        text = key.encode()
        head = b"\x0a" + varint(len(text)) + text
        if value is None and elem.kind is Kind.BYTES:
            return head
        payload = write(value)
        return b"".join((head, tag, varint(len(payload)), payload) if wire == _BYTES else (head, tag, payload))

    return entry


def _items(elem: Type) -> Write:
    write, wire = _writer(elem)
    tag = _tag(1, wire)
    return lambda value: b"".join(tag + (_framed(write(item)) if wire == _BYTES else write(item)) for item in value)


def _string(value: Tree) -> bytes:
    data: bytes = value.encode()
    return data


def _bytes(value: Tree) -> bytes:
    return base64.b64decode(value)


def _integer(value: Tree) -> bytes:
    return varint(int(value))


def _boolean(value: object) -> bytes:
    return b"\x01" if value else b"\x00"


def _double(value: object) -> bytes:
    return struct.pack("<d", value)


def _text_message(value: object) -> bytes:
    """Quantity: its text in field 1."""
    return b"\x0a" + _framed(str(value).encode())


def _int_or_string(value: Tree) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00\x1a" + _framed(value.encode())
    return b"\x08\x00\x10" + varint(value) + b"\x1a\x00"


def _time(value: Tree) -> bytes:
    """Seconds; nothing for Go's zero time."""
    if value is None:
        return b""
    return b"\x08" + varint(time.unix_of(value)[0]) + b"\x10\x00"


def _micro_time(value: Tree) -> bytes:
    if value is None:
        return b""
    seconds, micros = time.unix_of(value)
    return b"\x08" + varint(seconds) + b"\x10" + varint(micros * 1000)


def _duration(value: Tree) -> bytes:
    return b"\x08" + varint(nanoseconds(value))


def _raw_json(value: object) -> bytes:
    """RawExtension, FieldsV1, JSON: the text in field 1."""
    return b"" if value is None else b"\x0a" + _framed(text_of(value))


def _schema_or(value: object) -> bytes:
    """JSONSchemaPropsOrBool."""
    if isinstance(value, bool):
        return b"\x08" + _boolean(value)
    return b"\x08\x01\x12" + _framed(_message(_CRD + "JSONSchemaProps")(value))


def _schema_or_list(value: Tree) -> bytes:
    """JSONSchemaPropsOrArray, JSONSchemaPropsOrStringArray."""
    if isinstance(value, Mapping):
        return b"\x0a" + _framed(_message(_CRD + "JSONSchemaProps")(value))
    write = _message(_CRD + "JSONSchemaProps")
    return b"".join(b"\x12" + _framed(_string(item) if isinstance(item, str) else write(item)) for item in value)


_WRITERS: dict[Kind, tuple[Write, int]] = {
    Kind.STRING: (_string, _BYTES),
    Kind.BYTES: (_bytes, _BYTES),
    Kind.INTEGER: (_integer, _VARINT),
    Kind.BOOLEAN: (_boolean, _VARINT),
    Kind.NUMBER: (_double, _FIXED64),
    Kind.QUANTITY: (_text_message, _BYTES),
    Kind.INT_OR_STRING: (_int_or_string, _BYTES),
    Kind.TIME: (_time, _BYTES),
    Kind.MICRO_TIME: (_micro_time, _BYTES),
    Kind.DURATION: (_duration, _BYTES),
}
_ZEROS: dict[Kind, Tree] = {
    Kind.STRING: "", Kind.INTEGER: 0, Kind.BOOLEAN: False, Kind.NUMBER: 0.0, Kind.QUANTITY: "0", Kind.INT_OR_STRING: 0,
    Kind.TIME: None, Kind.MICRO_TIME: None, Kind.DURATION: "0s", Kind.ANY: None, Kind.STRUCT: {},
}  # fmt: skip
_SPECIAL: dict[str, Write] = {
    "RawExtension": _raw_json,
    "FieldsV1": _raw_json,
    "JSON": _raw_json,
    "JSONSchemaPropsOrBool": _schema_or,
    "JSONSchemaPropsOrArray": _schema_or_list,
    "JSONSchemaPropsOrStringArray": _schema_or_list,
}
