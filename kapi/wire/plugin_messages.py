"""Protobuf messages of plugins: fields of bytes, strings and numbers, and maps of strings to bytes.

Upstream: ``k8s.io/kms/apis/v2/api.proto``, ``k8s.io/externaljwt/apis/v1/api.proto``.  A message is a mapping of field numbers to
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kapi.schema.protobuf_wire import ProtobufError, read_varint
from kapi.schema.protobuf_writing import varint

_MAX_FIELDS = 10_000  # of one message: it is decoded in one piece
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """Bytes that are no valid message."""


def encode(fields: Iterable[tuple[int, bytes | int]]) -> bytes:
    """A message of (number, value) pairs; zero and empty values are left out, as in proto3."""
    parts = []
    for number, value in fields:
        if not value:
            continue
        if isinstance(value, int):
            parts.append(varint(number << 3 | _VARINT) + varint(value))
        else:
            parts.append(varint(number << 3 | _BYTES) + varint(len(value)) + value)
    return b"".join(parts)


def encode_map(number: int, values: Mapping[str, bytes]) -> list[tuple[int, bytes]]:
    """The entries of a map field, ordered by key, for ``encode``."""
    return [(number, encode([(1, key.encode()), (2, value)])) for key, value in sorted(values.items())]


def decode(data: bytes) -> dict[int, list[bytes | int]]:
    """All values of each field, in order.  Raises WireError."""
    found: dict[int, list[bytes | int]] = {}
    for count, (number, value) in enumerate(_fields(data)):
        if count == _MAX_FIELDS:
            raise WireError(f"more than {_MAX_FIELDS} fields")
        found.setdefault(number, []).append(value)
    return found


def last_bytes(fields: Mapping[int, list[bytes | int]], number: int) -> bytes:
    """The last value of a bytes field, or b"".  Raises WireError for a field of another type."""
    value = fields[number][-1] if number in fields else b""
    if not isinstance(value, bytes):
        raise WireError(f"field {number} has a wrong type")
    return value


def last_text(fields: Mapping[int, list[bytes | int]], number: int) -> str:
    """The last value of a string field, or "".  Raises WireError."""
    try:
        return last_bytes(fields, number).decode()
    except UnicodeDecodeError:
        raise WireError(f"field {number} is no text") from None


def last_number(fields: Mapping[int, list[bytes | int]], number: int) -> int:
    """The last value of an unsigned number, or 0.  Raises WireError."""
    value = fields[number][-1] if number in fields else 0
    if not isinstance(value, int):
        raise WireError(f"field {number} has a wrong type")
    return value


def last_signed(fields: Mapping[int, list[bytes | int]], number: int) -> int:
    """The last value of an int64 field, or 0.  Raises WireError."""
    value = last_number(fields, number) & (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def all_bytes(fields: Mapping[int, list[bytes | int]], number: int) -> list[bytes]:
    """All values of a repeated bytes field.  Raises WireError for one of another type."""
    found = []
    for value in fields.get(number, ()):
        if not isinstance(value, bytes):
            raise WireError(f"field {number} has a wrong type")
        found.append(value)
    return found


def decode_map(fields: Mapping[int, list[bytes | int]], number: int) -> dict[str, bytes]:
    """A map of strings to bytes.  Raises WireError."""
    found = {}
    for entry in all_bytes(fields, number):
        pair = decode(entry)
        found[last_text(pair, 1)] = last_bytes(pair, 2)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    position, end = 0, len(data)
    while position < end:
        tag, position = _number(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _number(data, position)
            yield number, value
        elif kind == _BYTES:
            size, position = _number(data, position)
            if position + size > end:
                raise WireError("unexpected end")
            yield number, data[position : position + size]
            position += size
        elif kind in (_FIXED32, _FIXED64):
            position += 4 if kind == _FIXED32 else 8
            if position > end:
                raise WireError("unexpected end")
        else:
            raise WireError(f"wire type {kind}")


def _number(data: bytes, position: int) -> tuple[int, int]:
    try:
        return read_varint(data, position)
    except ProtobufError as error:
        raise WireError(str(error)) from None
