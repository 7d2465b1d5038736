"""Reads bodies in CBOR (RFC 8949) as trees, like upstream's decode modes, with their error texts.

Well-formed data is read to its end; unacceptable values, such as a duplicate key, are reported afterwards.
The loop is in Python: a library would read a client's 3 MB in one piece, and block other requests (ADR 42).

Upstream: apimachinery ``runtime/serializer/cbor`` with its modes, over ``fxamacker/cbor``.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable

from kapi.codecs.json_reading import text_of
from kapi.machinery.checkpoint import checkpoint, engage
from kapi.machinery.each import elements, entries
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.golang import quote
from kapi.machinery.time import TimeError, of_unix, time
from kapi.machinery.tree import Tree

SELF_DESCRIBED = b"\xd9\xd9\xf7"  # the head of tag 55799, with which upstream's output begins
MAX_DEPTH = 240  # levels of nesting, as of any object here; upstream allows 10,000
_MAX_GO_DEPTH = 10_000
_LARGE = 4096  # bytes from which reading may take long
_MAX_PAIRS = 2_097_152  # pairs of one map
_ITEMS_PER_CHECKPOINT = 200
_MIN_CONTAINER_BYTES = 3  # of an array or a map in JSON: `[],`
_KINDS = (
    "positive integer", "negative integer", "byte string", "UTF-8 text string", "array", "map", "tag", "primitives",
)  # fmt: skip
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_FLOATS = {25: struct.Struct(">e"), 26: struct.Struct(">f"), 27: struct.Struct(">d")}
_SIMPLE_VALUES = {20: False, 21: True, 22: None}
#: first byte -> the value that it encodes alone
_VALUES: dict[int, Tree] = {
    **{number: number for number in range(24)},
    **{0x20 | number: -1 - number for number in range(24)},
    **{0xE0 | number: value for number, value in _SIMPLE_VALUES.items()},
}
_ENDED = "unexpected EOF"
_BREAK = 'cbor: unexpected "break" code'
_TIME, _EPOCH, _BIGNUMS = 0, 1, (2, 3)  # tags
#: tag of an "expected later encoding" -> that encoding of a byte string
_LATER: dict[int, Callable[[bytes], bytes]] = {
    21: lambda data: base64.urlsafe_b64encode(data).rstrip(b"="),
    22: base64.b64encode,
    23: lambda data: data.hex().encode(),
}
_EXPECTS_KEY = object()
_BREAK_BYTE = 0xFF
#: first byte -> the length of a string that it encodes alone, or -1
_SHORT_SIZES = tuple(first & 31 if first >> 5 in (_BYTES, _TEXT) and first & 31 < 24 else -1 for first in range(256))


class CBORError(ValueError):
    """Data that is not well-formed CBOR; the message is upstream's."""


class Unacceptable(CBORError):
    """Well-formed data with a value that upstream refuses.  ``tree`` has all values that can be read.

    ``outermost``: the value is among the keys of the outermost map, or not in a map at all.
    """

    def __init__(self, message: str, tree: Tree, outermost: bool) -> None:
        super().__init__(message)
        self.tree = tree
        self.outermost = outermost


class TooManyParts(ValueError):
    """The tree would need more memory than the tree of any JSON text of the permitted length."""


def loads(data: bytes, max_bytes: float = math.inf) -> Tree:
    """The tree of one data item.  ``max_bytes`` limits the minimal size of its JSON text.

    Raises CBORError, Unacceptable and TooManyParts.
    """
    if not data:
        raise CBORError("EOF")
    if len(data) >= _LARGE:
        engage()
    reader = _Reader(data, max_bytes)
    tree = reader.read()
    free_in_steps(tree, len(data))
    if reader.at > len(data):  # a string has fewer bytes than its head says
        raise CBORError(_ENDED)
    if reader.at < len(data):
        raise CBORError(f"cbor: {len(data) - reader.at} bytes of extraneous data starting at index {reader.at}")
    if reader.problem:
        raise Unacceptable(reader.problem, tree, reader.outermost)
    return tree


def cannot_unmarshal(kind: str, type_: str, why: str = "") -> str:
    """Upstream's text for a value of another type than the expected one."""
    return f"cbor: cannot unmarshal {kind} into Go value of type {type_}" + (f" ({why})" if why else "")


def kind_of(value: Tree) -> str:
    """The kind of a value in errors; a text counts as a byte string, which upstream writes for texts."""
    if isinstance(value, (list, dict)):
        return _KINDS[_ARRAY if isinstance(value, list) else _MAP]
    if isinstance(value, str):
        return _KINDS[_BYTES]
    if type(value) is int:
        return _KINDS[_UNSIGNED if value >= 0 else _NEGATIVE]
    return _KINDS[_SIMPLE]


def notation(tree: Tree) -> str:
    """A body's tree in diagnostic notation (RFC 8949, section 8), as if all its texts had been byte strings."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{notation(key)}: {notation(value)}" for key, value in entries(tree)) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(notation, elements(tree))) + "]"
    if isinstance(tree, str):
        return "'" + quote(tree)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    return json.dumps(tree)


class _Reader:
    """One pass over the data.  The open containers are on a stack, so that depth needs no recursion."""

    def __init__(self, data: bytes, max_bytes: float) -> None:
        self.data = data
        self.at = 0  # position of the next byte
        self.problem = ""  # the first value that is not acceptable
        self.outermost = False
        #: the open containers but the innermost, each with its missing items, key and later encoding
        self._stack: list[tuple[Tree, int, object, int]] = []
        self._tags = 0  # number of consecutive tags
        self._left = max_bytes / _MIN_CONTAINER_BYTES

    def read(self) -> Tree:
        data = self.data
        stack, at, end = self._stack, 0, len(data)
        into: Tree = None  # the innermost open container
        missing = 1  # missing items of the container; negative: it ends with a break
        key: object = None
        outer = 0  # the tag of the later encoding that applies to the container
        names: dict[bytes, str] = {}
        steps = _ITEMS_PER_CHECKPOINT
        while True:
            steps -= 1
            if not steps:
                steps = _ITEMS_PER_CHECKPOINT
                checkpoint()
            if at >= end:
                raise CBORError(_ENDED)
            first = data[at]
            size = _SHORT_SIZES[first]
            item: Tree
            closing = False
            if size >= 0 and not outer:  # most items are short strings
                raw = data[at + 1 : at + 1 + size]
                at += 1 + size
                item = names.get(raw) if key is _EXPECTS_KEY else None
                if item is None:
                    try:
                        item = raw.decode()
                        if key is _EXPECTS_KEY:
                            names[raw] = item
                    except UnicodeDecodeError:
                        item = self._text(raw, first >> 5, 0, key is _EXPECTS_KEY)
            elif first in _VALUES:
                item = _VALUES[first]
                at += 1
            elif missing < 0 and first == _BREAK_BYTE:
                if key is not _EXPECTS_KEY and type(into) is dict:
                    raise CBORError(_BREAK)
                at += 1
                item, closing = None, True
            else:
                self.at = at
                item, size, later = self._item(outer, key is _EXPECTS_KEY)
                at = self.at
                if type(item) is dict or type(item) is list:
                    stack.append((into, missing, key, outer))
                    into, outer, missing = item, later, size
                    key = _EXPECTS_KEY if type(item) is dict else None
                    if size:
                        continue
                    closing = True
            while True:
                if closing:
                    item = into
                    into, missing, key, outer = stack.pop()
                if key is _EXPECTS_KEY:
                    if type(item) is not str or item in into:
                        item = self._key(item, into)
                    key = item
                elif type(into) is list:
                    into.append(item)
                elif into is None:
                    self.at = at
                    return item
                else:
                    into[key] = item
                    key = _EXPECTS_KEY
                missing -= 1
                closing = not missing
                if not closing:
                    break

    def _item(self, outer: int, is_key: bool) -> tuple[Tree, int, int]:
        """An item, or an empty container with the number of its missing items and their later encoding."""
        major, more, number = self._head()
        tag, later = -1, outer
        while major == _TAG:
            tag = number
            major, more, number, later = self._tagged(tag, later)
        item: Tree
        size = 0
        if major == _BYTES or major == _TEXT:
            item = self._text(self._string(major, number), major, later, is_key)
        elif major == _UNSIGNED or major == _NEGATIVE:
            item = self._integer(major, number)
        elif major == _SIMPLE:
            item = self._simple(more, number)
        else:
            self._open(major, number)
            item = [] if major == _ARRAY else {}
            size = number if number < 0 or major == _ARRAY else 2 * number
        if tag == _TIME or tag == _EPOCH:
            item = self._moment(tag, major, item)
        return item, size, later

    def _head(self) -> tuple[int, int, int]:
        """The type of the next item, its additional information, and its argument; -1 for an indefinite length."""
        try:
            first = self.data[self.at]
        except IndexError:
            raise CBORError(_ENDED) from None
        self.at += 1
        major, more = first >> 5, first & 31
        if more < 24:
            return major, more, more
        if more < 28:
            end = self.at + (1 << more - 24)
            if end > len(self.data):
                raise CBORError(_ENDED)
            number = int.from_bytes(self.data[self.at : end])
            self.at = end
            if major == _SIMPLE and more == 24 and number < 32:
                raise CBORError(f"cbor: invalid simple value {number} for type primitives")
            return major, more, number
        if more == 31 and _BYTES <= major <= _MAP:
            return major, more, -1
        if more == 31 and major == _SIMPLE:
            raise CBORError(_BREAK)
        raise CBORError(f"cbor: invalid additional information {more} for type {_KINDS[major]}")

    def _tagged(self, tag: int, later: int) -> tuple[int, int, int, int]:
        """The head of the item after a tag, and the tag of the later encoding that applies to it."""
        if tag in _BIGNUMS:
            if self.at >= len(self.data):
                raise CBORError(_ENDED)
            raise CBORError("cbor: data item of cbor type tag is not accepted by protocol: bignum")
        self._tags += 1
        if self._tags > _MAX_GO_DEPTH:
            raise CBORError(f"cbor: exceeded max nested level {_MAX_GO_DEPTH}")
        if not self._tags % _ITEMS_PER_CHECKPOINT:
            checkpoint()
        return *self._head(), tag if tag in _LATER else later

    def _open(self, major: int, number: int) -> None:
        """Checks an array or a map of ``number`` members; nothing is reserved for its members."""
        if len(self._stack) >= MAX_DEPTH:
            raise CBORError(f"cbor: exceeded max nested level {_MAX_GO_DEPTH}")
        if number >> 63 > 0:
            raise CBORError(f"cbor: {_KINDS[major]} length {number} is too large, it would cause integer overflow")
        if major == _ARRAY and number > 0x7FFFFFFF:
            raise CBORError(f"cbor: exceeded max number of elements {0x7FFFFFFF} for CBOR array")
        if major == _MAP and number > _MAX_PAIRS:
            raise CBORError(f"cbor: exceeded max number of key-value pairs {_MAX_PAIRS} for CBOR map")
        self._left -= 1
        if self._left < 0:
            raise TooManyParts("too many arrays and maps")

    def _integer(self, major: int, number: int) -> int:
        value = number if major == _UNSIGNED else -1 - number
        if number >> 63:
            self._refuse(cannot_unmarshal(_KINDS[major], "int64", f"{value} overflows Go's int64"))
            return 0
        return value

    def _string(self, major: int, size: int) -> bytes:
        """The bytes of a string, also of one in chunks."""
        if size < 0:
            return self._chunks(major)
        if size >> 63:
            raise CBORError(f"cbor: {_KINDS[major]} length {size} is too large, causing integer overflow")
        begin, self.at = self.at, self.at + size  # behind the end of the data if some of it is missing
        return self.data[begin : self.at]

    def _chunks(self, major: int) -> bytes:
        parts: list[bytes] = []
        while self.data[self.at : self.at + 1] != b"\xff":
            if self.at >= len(self.data):
                raise CBORError(_ENDED)
            if self.data[self.at] >> 5 != major:
                found = _KINDS[self.data[self.at] >> 5]
                raise CBORError(f"cbor: wrong element type {found} for indefinite-length {_KINDS[major]}")
            if self.data[self.at] & 31 == 31:
                raise CBORError(f"cbor: indefinite-length {_KINDS[major]} chunk is not definite-length")
            _, _, size = self._head()
            parts.append(self._string(major, size))
            if not len(parts) % _ITEMS_PER_CHECKPOINT:
                checkpoint()
        self.at += 1
        return b"".join(parts)

    def _text(self, raw: bytes, major: int, later: int, is_key: bool) -> str:
        if later and major == _BYTES:
            return _LATER[later](raw).decode()
        try:
            return raw.decode()
        except UnicodeDecodeError:
            if major == _TEXT:
                self._refuse("cbor: invalid UTF-8 string", is_key)
            return text_of(raw)  # a byte string may have any bytes; they are stored as JSON

    def _simple(self, more: int, number: int) -> Tree:
        """The value of a primitive: false, true, null or a number."""
        if more in _FLOATS:
            form = _FLOATS[more]
            value: float = form.unpack(number.to_bytes(form.size))[0]
            if not math.isfinite(value):
                what = "NaN" if math.isnan(value) else "infinity"
                raise CBORError(
                    f"cbor: data item of cbor type primitives is not accepted by protocol: floating-point {what}"
                )
            return value
        if number not in _SIMPLE_VALUES:
            what = f"simple value {number} is not recognized"
            self._refuse(f"cbor: data item of cbor type primitives is not accepted by protocol: {what}")
        return _SIMPLE_VALUES.get(number)

    def _moment(self, tag: int, major: int, item: Tree) -> Tree:
        """The time of a tagged item, as text."""
        if tag == _TIME:
            if major != _TEXT:
                self._refuse(f"cbor: tag number 0 must be followed by text string, got {_KINDS[major]}")
                return item
            try:
                time(item)
            except TimeError as error:
                self._refuse(f"cbor: cannot set text for time.Time: {error}")
            return item
        if type(item) not in (int, float):
            what = f"integer or floating-point number, got {_KINDS[major]}"
            self._refuse(f"cbor: tag number 1 must be followed by {what}")
            return item
        fraction, whole = math.modf(item)
        seconds, nanoseconds = int(whole), int(fraction * 1e9)
        if nanoseconds < 0:
            seconds, nanoseconds = seconds - 1, nanoseconds + 1_000_000_000
        shown = of_unix(seconds)
        if not 0 <= int(shown.rsplit("-", 2)[0]) <= 9999:
            why = "Time.MarshalText: year outside of range [0,9999]"
            what = "cannot be represented in RFC3339 format with sub-second precision"
            self._refuse(f"cbor: decoded time {what}: {why}")
        digits = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
        return shown + digits + "Z"

    def _key(self, item: Tree, into: Tree) -> str:
        """The key of a map's next member."""
        if type(item) is not str:
            if item is not None:
                self._refuse(cannot_unmarshal(kind_of(item), "string"), True)
            item = ""
        key: str = item
        if key in into:
            self._refuse(f"cbor: found duplicate map key {quote(key)} at map element index {len(into)}", True)
        return key

    def _refuse(self, problem: str, is_key: bool = False) -> None:
        """Records an unacceptable value; the rest is still read, since it must be well-formed."""
        if not self.problem:
            self.problem = problem
            self.outermost = not self._stack or is_key and len(self._stack) == 1
