"""Decodes and encodes header blocks (HPACK, RFC 7541), with the table of the Huffman code and the static table of hpack.

hpack's own decoder makes several objects and calls for each field, which costs a fifth of a GET.  Blocks are encoded without a
dynamic table: a field has the same bytes on every connection, so it is encoded once, and blocks can be sent in any order.
"""

from __future__ import annotations

import functools
from typing import Generic, TypeVar

from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from kapi.request.headers import MAX_HEADERS

Field = tuple[bytes, bytes]

#: by index; index 0 is not used
_STATIC: tuple[Field, ...] = ((b"", b""), *((bytes(name), bytes(value)) for name, value in HeaderTable.STATIC_TABLE))
_FIRST = len(_STATIC)
_TABLE_BYTES = 4096  # size of the dynamic table: the default, which is never changed
_ENTRY_BYTES = 32  # overhead of a table's entry, besides its name and value
_MAX_NUMBER_BYTES = 4  # of a number, after its prefix
_MAX_CACHED_BYTES = 256  # a longer Huffman code is not cached


class Undecodable(Exception):
    """An invalid block.  The table's state is unknown then, so the connection must end."""


class _Incomplete(IndexError):
    """A text is not complete: it has ``size`` bytes from ``begin`` on, in Huffman code or not."""

    def __init__(self, begin: int, size: int, huffman: bool) -> None:
        self.begin = begin
        self.size = size
        self.huffman = huffman


Meaning = TypeVar("Meaning")


class Decoder(Generic[Meaning]):
    """The decoder of one connection; ``largest`` is SETTINGS_MAX_HEADER_LIST_SIZE.

    ``known`` is a cache for the caller: what blocks mean.  It is cleared when the table changes, since then a block may mean
    something else.
    """

    __slots__ = (
        "known",
        "total",
        "oversized",
        "_largest",
        "_table",
        "_size",
        "_max_table_bytes",
        "_fields",
        "_rest",
        "_value",
    )

    def __init__(self, largest: int) -> None:
        self.known: dict[bytes, Meaning] = {}
        self._largest = largest
        self._table: list[Field] = []  # the newest entry first
        self._size = 0
        self._max_table_bytes = _TABLE_BYTES
        # of the current block
        self.total = 0  # bytes of the fields
        self.oversized = False  # the list is larger than ``largest``, or too long: fields are left out
        self._fields: list[Field] = []
        self._rest = b""  # the received part of a field
        self._value: _Value | None = None  # the value whose end has not come

    def decode(self, block: bytes) -> list[Field]:
        """The fields of a whole block.  Raises Undecodable."""
        self.begin()
        if self._walk(block) != len(block):
            raise Undecodable("the block ends within a field")
        return self.end()

    def begin(self) -> None:
        """Begins a block that comes in parts."""
        self.total, self.oversized = 0, False
        self._fields = []

    def feed(self, part: bytes) -> None:
        """Decodes another part of a block.  Raises Undecodable."""
        value = self._value
        if value is not None:
            part = value.feed(part)
            if value.missing:
                return
            self._value = None
            self._complete(value)
        elif self._rest:
            part = self._rest + part
        self._rest = part[self._walk(part) :]

    def end(self) -> list[Field]:
        """The fields of the block.  Raises Undecodable."""
        if self._rest or self._value is not None:
            raise Undecodable("the block ends within a field")
        fields, self._fields = self._fields, []
        return fields

    def _walk(self, block: bytes) -> int:
        """Decodes fields; returns the position of the first one that is not complete.  Raises Undecodable."""
        fields, table, largest = self._fields, self._table, self._largest
        at, end, total, begin = 0, len(block), self.total, 0
        try:
            while at < end:
                begin = at
                first = block[at]
                at += 1
                name = None
                if first & 0x80:
                    index = first & 0x7F
                    if index == 0x7F:
                        index, at = _number(block, at, index)
                    if not index:
                        raise Undecodable("an index of 0")
                    field = _STATIC[index] if index < _FIRST else table[index - _FIRST]
                elif first & 0xE0 == 0x20:
                    at = self._limit(block, at, first, bool(fields))
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
                if total > largest or len(fields) >= MAX_HEADERS:
                    self.oversized = True
                else:
                    fields.append(field)
        except _Incomplete as text:
            if name is None:
                return begin
            self._value = _Value(name, bool(first & 0x40), text.size, text.huffman, largest - total)
            self._value.feed(block[text.begin :])
            return end
        except IndexError:
            return begin
        finally:
            self.total = total
        return end

    def _complete(self, value: _Value) -> None:
        """The end of a value has come."""
        field = (value.name, value.text())
        if value.indexed:
            self._add(field)
        self.total += len(field[0]) + len(field[1]) + _ENTRY_BYTES
        if self.total > self._largest or len(self._fields) >= MAX_HEADERS:
            self.oversized = True
        else:
            self._fields.append(field)

    def _limit(self, block: bytes, at: int, first: int, late: bool) -> int:
        """Handles an update of the dynamic table's size; returns the position after it."""
        size = first & 0x1F
        if size == 0x1F:
            size, at = _number(block, at, size)
        if late or size > _TABLE_BYTES:
            raise Undecodable("the size of the table is changed too late, or to too much")
        self._max_table_bytes = size
        self.known.clear()
        self._evict(size)
        return at

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
    for index in range(_MAX_NUMBER_BYTES):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << 7 * index
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
        raise _Incomplete(begin, size, first >= 0x80)
    data = block[begin:at]
    if first & 0x80:
        data = _decoded(data) if size <= _MAX_CACHED_BYTES else _decoded.__wrapped__(data)
    return data, at


class _Value:
    """The value of a field, which comes in several parts; a Huffman code is decoded as it comes.

    More than ``most`` bytes are too many for the list, and dropped.
    """

    __slots__ = ("name", "indexed", "missing", "_huffman", "_most", "_state", "_flags", "_text")

    def __init__(self, name: bytes, indexed: bool, size: int, huffman: bool, most: int) -> None:
        self.name = name
        self.indexed = indexed
        self.missing = size  # bytes
        self._huffman = huffman
        self._most = max(most, _TABLE_BYTES)
        self._state, self._flags = 0, HUFFMAN_COMPLETE
        self._text = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Takes the value's part of the data; returns the rest.  Raises Undecodable."""
        part = data[: self.missing]
        self.missing -= len(part)
        if len(self._text) <= self._most:
            if self._huffman:
                self._state, self._flags, text = _huffman(part, self._state, self._flags)
                self._text += text
            else:
                self._text += part
        return data[len(part) :]

    def text(self) -> bytes:
        """The whole value, or more than ``most`` bytes of it.  Raises Undecodable."""
        if len(self._text) <= self._most and not self._flags & HUFFMAN_COMPLETE:
            raise Undecodable("a Huffman code ends within a symbol")
        return bytes(self._text)


@functools.lru_cache(maxsize=512)
def _decoded(data: bytes) -> bytes:
    """The text of a Huffman code; cached, since clients repeat themselves.  Raises Undecodable."""
    _, flags, text = _huffman(data, 0, HUFFMAN_COMPLETE)
    if not flags & HUFFMAN_COMPLETE:
        raise Undecodable("a Huffman code ends within a symbol")
    return text


def _huffman(data: bytes, state: int, flags: int) -> tuple[int, int, bytes]:
    """Decodes a part of a code: the state and the flags at its end, and the text.  Raises Undecodable."""
    table, text = HUFFMAN_TABLE, bytearray()
    for byte in data:
        state, flags, symbol = table[state << 4 | byte >> 4]
        if flags & HUFFMAN_EMIT_SYMBOL:
            text.append(symbol)
        elif flags & HUFFMAN_FAIL:
            break
        state, flags, symbol = table[state << 4 | byte & 15]
        if flags & HUFFMAN_EMIT_SYMBOL:
            text.append(symbol)
        elif flags & HUFFMAN_FAIL:
            break
    if flags & HUFFMAN_FAIL:
        raise Undecodable("an invalid Huffman code")
    return state, flags, bytes(text)


# -- encoding

#: begins the first block of a connection: sets the size of the dynamic table to 0 (RFC 7541, section 6.3)
NO_TABLE = b"\x20"
#: connection-specific fields, which HTTP/2 does not allow (RFC 9113, section 8.2.2)
CONNECTION_FIELDS = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
_INDEXES = {name: index for index, (name, _) in reversed(list(enumerate(_STATIC)))}  # the first index of each name


@functools.lru_cache(maxsize=256)
def encoded_field(name: bytes, value: bytes) -> bytes:
    """A literal field without indexing; nothing for one of the connection.  Line breaks in values become spaces."""
    name = name.lower()
    if name in CONNECTION_FIELDS:
        return b""
    if value.translate(None, b"\r\n\0") != value:
        value = b" ".join(value.replace(b"\0", b" ").splitlines())
    index = _INDEXES.get(name)
    begin = _integer(0, 4, index) if index is not None else b"\x00" + _integer(0, 7, len(name)) + name
    size = len(value)
    return begin + (bytes((size,)) if size < 127 else _integer(0, 7, size)) + value


def _integer(first: int, bits: int, number: int) -> bytes:
    """A number with a prefix of ``bits`` bits (RFC 7541, section 5.1); ``first`` has the bits before it."""
    most = (1 << bits) - 1
    if number < most:
        return bytes((first | number,))
    out = bytearray((first | most,))
    number -= most
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
