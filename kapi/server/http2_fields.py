"""Decodes header blocks (HPACK, RFC 7541), with the Huffman code and the static table of the library hpack.

hpack's own decoder makes several objects and calls for each field, which costs a fifth of a GET.
"""

from __future__ import annotations

import functools
from typing import Generic, TypeVar

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

Field = tuple[bytes, bytes]

#: by index; index 0 is not used
_STATIC: tuple[Field, ...] = ((b"", b""), *((bytes(name), bytes(value)) for name, value in HeaderTable.STATIC_TABLE))
_FIRST = len(_STATIC)
_TABLE_BYTES = 4096  # of the dynamic table; the default, which is never changed
_ENTRY_BYTES = 32  # of a table's entry, in addition to its name and value
_MAX_NUMBER_BYTES = 4  # after the prefix
_MAX_CACHED_BYTES = 256  # a longer Huffman code is not cached


class Undecodable(Exception):
    """An invalid block.  The table's state is unknown then, so the connection must end."""


Meaning = TypeVar("Meaning")


class Oversized(Exception):
    """The list of fields is larger than SETTINGS_MAX_HEADER_LIST_SIZE."""


class Decoder(Generic[Meaning]):
    """The decoder of one connection; ``largest`` is SETTINGS_MAX_HEADER_LIST_SIZE.

    ``known`` is a cache for the caller: what blocks mean.  It is cleared when the table changes, since then a block may mean
    something else.
    """

    __slots__ = ("known", "_largest", "_table", "_size", "_max_table_bytes")

    def __init__(self, largest: int) -> None:
        self.known: dict[bytes, Meaning] = {}
        self._largest = largest
        self._table: list[Field] = []  # the newest first
        self._size = 0
        self._max_table_bytes = _TABLE_BYTES

    def decode(self, block: bytes) -> list[Field]:
        """The fields of a block.  Raises Undecodable and Oversized."""
        try:
            return self._walk(block)
        except (IndexError, HPACKDecodingError) as error:
            raise Undecodable(str(error)) from None

    def _walk(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        table, largest = self._table, self._largest
        at, end, total = 0, len(block), 0
        while at < end:
            first = block[at]
            at += 1
            if first & 0x80:
                index = first & 0x7F
                if index == 0x7F:
                    index, at = _number(block, at, index)
                if not index:
                    raise Undecodable("an index of 0")
                field = _STATIC[index] if index < _FIRST else table[index - _FIRST]
            elif first & 0xE0 == 0x20:
                self._limit(block, at, first, bool(fields))
                at = at if first & 0x1F != 0x1F else _number(block, at, 0x1F)[1]
                continue
            else:
                most = 0x3F if first & 0x40 else 0x0F
                index = first & most
                if index == most:
                    index, at = _number(block, at, index)
                if index:
                    name = (_STATIC[index] if index < _FIRST else table[index - _FIRST])[0]
                else:
                    name, at = _text(block, at, end)
                value, at = _text(block, at, end)
                field = (name, value)
                if first & 0x40:
                    self._add(field)
            total += len(field[0]) + len(field[1]) + _ENTRY_BYTES
            if total > largest:
                raise Oversized(f"more than {largest} bytes of fields")
            fields.append(field)
        return fields

    def _limit(self, block: bytes, at: int, first: int, late: bool) -> None:
        """Handles an update of the dynamic table's size."""
        size = first & 0x1F
        if size == 0x1F:
            size, _ = _number(block, at, size)
        if late or size > _TABLE_BYTES:
            raise Undecodable("the size of the table is changed too late, or to too much")
        self._max_table_bytes = size
        self.known.clear()
        self._evict(size)

    def _add(self, field: Field) -> None:
        self.known.clear()
        size = len(field[0]) + len(field[1]) + _ENTRY_BYTES
        self._evict(self._max_table_bytes - size)
        if size <= self._max_table_bytes:
            self._table.insert(0, field)
            self._size += size

    def _evict(self, most: int) -> None:
        table = self._table
        while table and self._size > most:
            name, value = table.pop()
            self._size -= len(name) + len(value) + _ENTRY_BYTES


def _number(block: bytes, at: int, number: int) -> tuple[int, int]:
    """(number, position after it) of a number whose prefix is full."""
    for shift in range(0, 7 * _MAX_NUMBER_BYTES, 7):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise Undecodable("a number that is too long")


def _text(block: bytes, at: int, end: int) -> tuple[bytes, int]:
    first = block[at]
    at += 1
    size = first & 0x7F
    if size == 0x7F:
        size, at = _number(block, at, size)
    begin, at = at, at + size
    if at > end:
        raise Undecodable("the block ends within a text")
    data = block[begin:at]
    if first & 0x80:
        data = _decoded(data) if size <= _MAX_CACHED_BYTES else decode_huffman(data)
    return data, at


@functools.lru_cache(maxsize=512)
def _decoded(data: bytes) -> bytes:
    """The text of a Huffman code; cached, since clients repeat themselves."""
    text: bytes = decode_huffman(data)
    return text
