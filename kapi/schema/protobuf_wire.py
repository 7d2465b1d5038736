"""The fields of a protobuf message as they are on the wire (https://protobuf.dev/programming-guides/encoding/)."""

from __future__ import annotations

from collections.abc import Iterator

from kapi.machinery.checkpoint import checkpoint

_VARINT, _FIXED64, BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The bytes are no message of the expected type."""


#: (wire type, value): an int for numbers, bytes for the rest
Value = int | bytes


def fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """(number, wire type, value) of every field.  Raises ProtobufError."""
    position, size = 0, len(data)
    while position < size:
        tag, position = read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise ProtobufError("illegal tag 0")
        value: Value
        if wire == _VARINT:
            value, position = read_varint(data, position)
        elif wire == BYTES:
            length, position = read_varint(data, position)
            end = position + length
            if end > size:
                raise ProtobufError("unexpected EOF")
            value, position = data[position:end], end
        elif wire in (_FIXED64, _FIXED32):
            end = position + (8 if wire == _FIXED64 else 4)
            if end > size:
                raise ProtobufError("unexpected EOF")
            value, position = data[position:end], end
        else:
            raise ProtobufError(f"illegal wireType {wire}")
        checkpoint()
        yield number, wire, value


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number that begins there, and where it ends.  Raises ProtobufError."""
    result = shift = 0
    while True:
        if position >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift >= 70:
            raise ProtobufError("integer overflow")


def raw(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("wrong wireType for a message or string")
    return value
