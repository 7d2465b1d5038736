"""The fields of a protobuf message in its wire format (https://protobuf.dev/programming-guides/encoding/).

Errors have the texts of gogo-protobuf's generated unmarshallers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kapi.machinery.checkpoint import checkpoint

VARINT, FIXED64, BYTES, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
_SIZES = {FIXED64: 8, _FIXED32: 4}
_EOF = "unexpected EOF"
_MAX_INT = (1 << 63) - 1


class ProtobufError(ValueError):
    """The bytes are not a message of the expected type."""


#: an int for numbers, bytes for the rest
Value = Any
#: makes the JSON tree of a value; the number is the permitted depth of messages
Reader = Callable[[Value, int], Any]


class Slot(NamedTuple):
    """How a field is decoded: its name in Go (for errors) and in JSON, its wire type, the decoder of a value.

    ``form``: "one", "message" (further ones are merged), "list", "numbers" (a list that may be packed), "map" or "inline".
    """

    go_name: str
    wire: int
    name: str = ""
    read: Reader | None = None
    form: str = "one"


def fields(data: bytes, message: str, slots: Mapping[int, Slot]) -> Iterator[tuple[Slot, Value]]:
    """The known fields of a message named ``message`` in errors, in order; unknown ones are skipped.

    The value of packed numbers is bytes.  Raises ProtobufError.
    """
    position, size = 0, len(data)
    while position < size:
        start = position
        tag, position = read_varint(data, position)
        number, wire = tag >> 3 & 0xFFFFFFFF, tag & 7
        if wire == _END_GROUP:
            raise ProtobufError(f"proto: {message}: wiretype end group for non-group")
        if not 0 < number < 1 << 31:
            shown = number - (1 << 32) if number else 0
            raise ProtobufError(f"proto: {message}: illegal tag {shown} (wire type {tag})")
        slot = slots.get(number)
        if slot is None:
            position = _skip(data, start)
            continue
        if wire != slot.wire and (slot.form != "numbers" or wire != BYTES):
            raise ProtobufError(f"proto: wrong wireType = {wire} for field {slot.go_name}")
        value, position = _value(data, position, wire)
        checkpoint()
        yield slot, value


def entry(data: bytes, key: Slot, value: Slot) -> Iterator[tuple[Slot, Value]]:
    """The fields 1 and 2 of an entry of a map, whose wire types are not checked.  Raises ProtobufError."""
    position, size = 0, len(data)
    while position < size:
        start = position
        tag, position = read_varint(data, position)
        slot = {1: key, 2: value}.get(tag >> 3)
        if slot is None:
            position = _skip(data, start)
            continue
        found, position = _value(data, position, slot.wire)
        yield slot, found


def _value(data: bytes, position: int, wire: int) -> tuple[Value, int]:
    """A value, and where it ends."""
    if wire == VARINT:
        return read_varint(data, position)
    if wire == BYTES:
        length, position = read_varint(data, position)
        end = position + length
        if end > _MAX_INT:
            raise ProtobufError("proto: negative length found during unmarshaling")
    else:
        end = position + _SIZES[wire]
    if end > len(data):
        raise ProtobufError(_EOF)
    return data[position:end], end


def _skip(data: bytes, position: int) -> int:
    """Where the field that begins there ends; a group ends with its end tag."""
    depth, size = 0, len(data)
    while position < size:
        tag, position = read_varint(data, position)
        wire = tag & 7
        if wire in (VARINT, BYTES, FIXED64, _FIXED32):
            position = _end(data, position, wire)
        elif wire == _START_GROUP:
            depth += 1
        elif wire == _END_GROUP:
            if not depth:
                raise ProtobufError("proto: unexpected end of group")
            depth -= 1
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if not depth:
            if position > size:
                break
            return position
        checkpoint()
    raise ProtobufError(_EOF)


def _end(data: bytes, position: int, wire: int) -> int:
    """The end of a value that is skipped; it may be beyond the end of the data."""
    if wire == VARINT:
        return read_varint(data, position)[1]
    if wire == BYTES:
        length, position = read_varint(data, position)
        if position + length > _MAX_INT:
            raise ProtobufError("proto: negative length found during unmarshaling")
        return position + length
    return position + _SIZES[wire]


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number that begins there, and where it ends.  Raises ProtobufError."""
    result = shift = 0
    while True:
        if position >= len(data):
            raise ProtobufError(_EOF)
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift >= 70:
            raise ProtobufError("proto: integer overflow")
