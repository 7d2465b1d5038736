"""Writes OpenAPI documents as protobuf messages: values of fields, and messages whose fields are listed by their JSON names.

Values that the format has no field for are left out, as are the zero values of types (proto3).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from kapi.machinery.each import entries
from kapi.machinery.memo import memoized
from kapi.machinery.tree import Object, Tree
from kapi.request.packed import Packer
from kapi.schema.protobuf_writing import varint

#: (field number, value) -> the encoded field, or fields
Writer = Callable[[int, Tree], bytes]
Encode = Callable[[Tree], bytes]
VARINT, _FIXED64, _BYTES = 0, 1, 2


def field(number: int, data: bytes) -> bytes:
    return head(number, len(data)) + data


def head(number: int, size: int) -> bytes:
    """The key and the length before the data of a field."""
    return varint(number << 3 | _BYTES) + varint(size)


# -- values of fields


def string(number: int, value: Tree) -> bytes:
    return field(number, value.encode()) if value else b""


def boolean(number: int, value: Tree) -> bytes:
    return varint(number << 3 | VARINT) + b"\x01" if value else b""


def integer(number: int, value: Tree) -> bytes:
    return varint(number << 3 | VARINT) + varint(int(value) & 0xFFFFFFFFFFFFFFFF) if value else b""


def double(number: int, value: Tree) -> bytes:
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value) if value else b""


def any_value(number: int, value: Tree) -> bytes:
    """A message that holds YAML, in block style as gnostic writes it."""
    return field(number, field(2, _yaml(json.dumps(value, ensure_ascii=False))))


@memoized(1024)
def _yaml(text: str) -> bytes:
    from kapi.codecs.yaml_writing import dump_yaml  # few servers are asked for protobuf or YAML

    return dump_yaml(json.loads(text))


def one(encode: Encode) -> Writer:
    return lambda number, value: field(number, encode(value))


def many(writer: Writer) -> Writer:
    return lambda number, values: b"".join([writer(number, value) for value in values])


def each_string(number: int, values: Tree) -> bytes:
    return b"".join([field(number, value.encode()) for value in values])


def named(encode: Encode) -> Writer:
    """A map as a list of names (1) and values (2)."""

    def write(number: int, value: Tree) -> bytes:
        return b"".join([field(number, string(1, name) + field(2, encode(item))) for name, item in value.items()])

    return write


def wrapped(writer: Writer) -> Encode:
    """A message of the one field 1."""
    return lambda value: writer(1, value)


# -- messages


class Message:
    """``fields``: by their JSON names, the number and the writer.  ``extensions``: the number for ``x-...``."""

    def __init__(self, extensions: int = 0) -> None:
        self.fields: dict[str, tuple[int, Writer]] = {}
        self.extensions = extensions

    def __call__(self, tree: Tree) -> bytes:
        found: list[tuple[int, bytes]] = []
        for key, value in entries(tree):
            known = self.fields.get(key)
            if known is not None:
                found.append((known[0], known[1](known[0], value)))
            elif self.extensions and key.startswith("x-"):
                found.append((self.extensions, field(self.extensions, string(1, key) + any_value(2, value))))
        found.sort(key=lambda pair: pair[0])
        return b"".join([data for _, data in found])


def write(message: Message, tree: Object, out: Packer) -> None:
    """Writes a message some of whose fields, or of their fields, are Packers."""
    for key in sorted(tree, key=lambda key: message.fields[key][0]):
        value = tree[key]
        number = message.fields[key][0]
        if isinstance(value, Packer):
            out.add(head(number, value.size))
            out.join(value)
        else:
            out.add(message({key: value}))


def numbered(first: int, **writers: Writer) -> dict[str, tuple[int, Writer]]:
    """Fields that follow each other; a trailing underscore keeps a name from being a keyword."""
    return {name.rstrip("_"): (first + place, writer) for place, (name, writer) in enumerate(writers.items())}
