"""The fields of any protobuf message, for tests that look at bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kapi.schema.protobuf_wire import BYTES, FIXED64, VARINT, read_varint


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of every field: an int for numbers, bytes for the rest."""
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        wire = tag & 7
        if wire == VARINT:
            value, position = read_varint(data, position)
            yield tag >> 3, wire, value
            continue
        size = 8 if wire == FIXED64 else 4
        if wire == BYTES:
            size, position = read_varint(data, position)
        assert position + size <= len(data)
        yield tag >> 3, wire, data[position : position + size]
        position += size
