"""Writes trees as CBOR (RFC 8949), like upstream: every text and key is a byte string, numbers are as short as possible.

The members of maps stay in the order of the tree; in upstream's answers their order is random (``EncodeNondeterministic``).

Upstream: apimachinery ``runtime/serializer/cbor``, the encode mode.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence

from kapi.codecs.cbor_reading import SELF_DESCRIBED
from kapi.machinery.each import elements, entries
from kapi.machinery.memo import memoized
from kapi.machinery.tree import Tree

_UNSIGNED, _NEGATIVE, _BYTES, _ARRAY, _MAP = 0x00, 0x20, 0x40, 0x80, 0xA0
_FALSE, _TRUE, _NULL = b"\xf4", b"\xf5", b"\xf6"
_FLOATS = ((b"\xf9", struct.Struct(">e")), (b"\xfa", struct.Struct(">f")), (b"\xfb", struct.Struct(">d")))
_BASE64 = b"\xd6"  # tag 22: the next item is base64 in JSON
_MAX_KEPT_BYTES = 64  # bytes of a key whose encoding is cached
Write = Callable[[bytes], object]


def dumps(tree: Tree) -> bytes:
    """A tree as a self-described data item; bytes in the tree are base64 in JSON."""
    parts = [SELF_DESCRIBED]
    _write(tree, parts.append)
    return b"".join(parts)


def dump_event(kind: str, data: bytes) -> bytes:
    """A watch event with an object that is CBOR already."""
    event = b"".join((_head(_MAP, 2), _name("type"), _text(kind), _name("object")))
    return b"".join((SELF_DESCRIBED, event, data))


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return (major | number).to_bytes()
    if number < 0x100:
        return bytes((major | 24, number))
    if number < 0x10000:
        return (major | 25).to_bytes() + number.to_bytes(2)
    if number < 0x100000000:
        return (major | 26).to_bytes() + number.to_bytes(4)
    return (major | 27).to_bytes() + number.to_bytes(8)


def _text(text: str) -> bytes:
    data = text.encode()
    return _head(_BYTES, len(data)) + data


_name = memoized(4096)(_text)


def _write(node: Tree, write: Write) -> None:
    kind = type(node)
    if kind is str:
        write(_text(node))
    elif kind is dict or isinstance(node, Mapping):
        write(_head(_MAP, len(node)))
        for key, value in entries(node):
            write(_name(key) if len(key) <= _MAX_KEPT_BYTES else _text(key))
            if type(value) is str:
                write(_text(value))
            else:
                _write(value, write)
    elif kind is bool or node is None:
        write(_NULL if node is None else _TRUE if node else _FALSE)
    elif kind is int:
        write(_head(_UNSIGNED, node) if node >= 0 else _head(_NEGATIVE, -1 - node))
    elif isinstance(node, float):
        write(_float(node))
    elif isinstance(node, str):
        write(_text(node))
    elif kind is bytes:
        write(_BASE64 + _head(_BYTES, len(node)))
        write(node)
    elif isinstance(node, Sequence):
        write(_head(_ARRAY, len(node)))
        for value in elements(node):
            _write(value, write)
    else:
        raise TypeError(f"Type is not CBOR serializable: {kind.__name__}")


def _float(number: float) -> bytes:
    """The shortest form that keeps the value.  Raises ValueError for NaN and infinities, which JSON does not have."""
    if not math.isfinite(number):
        raise ValueError(f"{number} has no form in JSON")
    data = b""
    for head, form in _FLOATS:
        try:
            data = head + form.pack(number)
        except OverflowError:
            continue
        if form.unpack(data[1:])[0] == number:
            break
    return data
