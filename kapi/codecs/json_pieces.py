"""Parsing and writing of large JSON in pieces, with a checkpoint after each.  The results are the same as orjson's, with
numbers as Go writes them.

For 3 MB one call of orjson's parser takes 20 to 60 ms, one of its writer 3 to 80 ms, and the reactor is blocked meanwhile.
Outside of a slice, and for small texts, it is still one call.

The places to cut a list or an object are guessed: if the text up to a comma, plus a closing bracket, is valid JSON, the comma is
one between two members.  Where guessing fails, msgspec finds the members without decoding them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import orjson

from kapi.machinery import checkpoint as checkpoints
from kapi.machinery.checkpoint import checkpoint, engage, expect_tree
from kapi.machinery.freeing import drain
from kapi.machinery.tree import Tree

LARGE = 256 * 1024  # bytes from which a text is parsed in pieces
#: replaces a value that is not JSON (``default`` of ``orjson.dumps``)
Default = Callable[[Any], object]
_PIECE_BYTES = 64 * 1024  # bytes that are parsed at once
_PIECE_MEMBERS = 2000  # members that are parsed or written at once
_MAX_DEPTH = 12  # levels of nesting that are split
_SPACE = b" \t\n\r"
_NO_MEMORY = "Not enough memory"  # which orjson reports as an error of the text
_BETWEEN = {b'"': b'","', b"{": b"},{", b"[": b"],["}  # between the members of a list, by their first byte
_PLUS = ord("+")
_CHARACTERS_PER_MEMBER = 64  # of a string, which count as one member

_LONG_NUMBER = re.compile(rb"\de\+(?:1[6-9]|20)\b")
_TEXT_OR_LONG_NUMBER = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(?P<first>-?\d)(?:\.(?P<fraction>\d+))?e\+(?P<exponent>1[6-9]|20)\b'
)

_members_of_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_members_of_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def loads(data: bytes) -> Tree:
    """``orjson.loads`` in pieces.  Raises orjson.JSONDecodeError, and MemoryError, which is no error of the text."""
    try:
        if len(data) < LARGE:
            return orjson.loads(data)
        engage()  # a text may be larger than the request that causes its parsing
        if checkpoints.running is None:
            return orjson.loads(data)
        expect_tree(len(data))
        try:
            tree = _read(data.strip(_SPACE), 0)
        except (ValueError, RecursionError):
            checkpoint()
            tree = orjson.loads(data)  # raises the error with its position in the whole text
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_NO_MEMORY):
            raise MemoryError(_NO_MEMORY) from None
        raise
    checkpoint()
    return tree


def _read(text: bytes, level: int) -> Tree:
    """The value of a text at a level of nesting.  Raises ValueError."""
    opening, closing = text[:1], text[-1:]
    if len(text) <= _PIECE_BYTES or level == _MAX_DEPTH or opening + closing not in (b"[]", b"{}"):
        return _whole(text, level)
    found: Tree = [] if opening == b"[" else {}
    add = found.extend if opening == b"[" else found.update
    at = 1
    while len(text) - at > _PIECE_BYTES:
        end = _cut(text, at, opening)
        try:
            part = _whole(opening + text[at:end] + closing, level) if end > at else None
        except ValueError:
            part = None
        if not part:
            break
        add(part)
        at = end + 1
    if at > 1 and len(text) - at <= _PIECE_BYTES:
        part = _whole(opening + text[at:], level)
        if not part:
            raise ValueError("nothing after a comma")
        add(part)
        return found
    rest = text if at == 1 else opening + text[at:]
    members: Tree = _members_of_list(rest) if opening == b"[" else _members_of_object(rest)
    checkpoint()
    if at > 1 and not members:
        raise ValueError("nothing after a comma")
    names = iter(members)
    for part in _parts(members if opening == b"[" else members.values(), level):
        add(part if opening == b"[" else zip(islice(names, len(part)), part, strict=True))
    del names
    drain(members)
    return found


def _whole(text: bytes, level: int) -> Tree:
    """The value of a piece, parsed at its depth in the whole text, since the parser limits the depth."""
    tree = orjson.loads(b"[" * level + text + b"]" * level)
    for _ in range(level):
        tree = tree[0]
    checkpoint()
    return tree


def _cut(text: bytes, at: int, opening: bytes) -> int:
    """The index of a comma that may separate two members, at most a piece after ``at``; smaller than ``at`` if none."""
    between = b',"' if opening == b"{" else _BETWEEN.get(text[at : at + 1], b",")
    found = text.rfind(between, at, at + _PIECE_BYTES)
    return found + between.index(b",")


def _parts(members: Iterable[msgspec.Raw], level: int) -> Iterator[list[Tree]]:
    """The values of the texts, in groups."""
    group: list[memoryview] = []
    size = 0
    for member in members:
        text = memoryview(member)
        if len(text) > _PIECE_BYTES:
            if group:
                yield _whole(b"[" + b",".join(group) + b"]", level)
            group, size = [], 0
            yield [_read(bytes(text).strip(_SPACE), level + 1)]
            continue
        group.append(text)
        size += len(text)
        if size > _PIECE_BYTES or len(group) >= _PIECE_MEMBERS:
            yield _whole(b"[" + b",".join(group) + b"]", level)
            group, size = [], 0
    if group:
        yield _whole(b"[" + b",".join(group) + b"]", level)


def dumps(tree: Tree, default: Default | None = None, depth: int = 0) -> bytes:
    """The JSON of a tree ``depth`` levels inside of another, ``with_long_numbers``.  Raises orjson.JSONEncodeError."""
    if checkpoints.running is None:
        return _text(tree, default, depth)
    parts: list[bytes] = []
    _write(tree, default, depth, 0, parts)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _text(tree: Tree, default: Default | None, depth: int) -> bytes:
    for _ in range(depth):
        tree = [tree]
    text = orjson.dumps(tree, default=default)
    if _PLUS in text:
        text = with_long_numbers(text)
    return text[depth : len(text) - depth] if depth else text


def with_long_numbers(text: bytes) -> bytes:
    """A text of orjson with numbers in Go's form: with an exponent from 1e21 on, while orjson's numbers have one from 1e16 on.

    Such numbers are floats that are no int64 or uint64, such as a minimum of -9223372036854776000.
    """
    # not `in`, which raises and drops a TypeError first, since bytes may also contain a number
    if _PLUS not in text or text.find(b"e+") < 0 or not _LONG_NUMBER.search(text):
        return text
    return _TEXT_OR_LONG_NUMBER.sub(_without_exponent, text)


def _without_exponent(found: re.Match[bytes]) -> bytes:
    if found["exponent"] is None:
        return found[0]
    fraction = found["fraction"] or b""
    return found["first"] + fraction.ljust(int(found["exponent"]), b"0")


def _write(node: Tree, default: Default | None, depth: int, level: int, parts: list[bytes]) -> None:
    kind = type(node)
    if (kind is not dict and kind is not list) or level == _MAX_DEPTH or not _is_large(node):
        parts.append(_text(node, default, depth))
        checkpoint()
        return
    is_object = kind is dict
    before = b"{" if is_object else b"["
    for block in _blocks(node):
        checkpoint()
        if len(block) > 1 and not _is_large(block):
            text = _text(block, default, depth)
            parts += before, text[1:-1]
            before = b","
            checkpoint()
            continue
        for member in block.items() if is_object else block:
            parts.append(before)
            before = b","
            if is_object:
                parts.append(orjson.dumps(member[0]) + b":")
                member = member[1]
            _write(member, default, depth + 1, level + 1, parts)
    parts.append(b"}" if is_object else b"]")


def _blocks(node: Tree) -> Iterator[Tree]:
    """The members of a list or an object, in blocks of the same type."""
    if type(node) is list:
        for at in range(0, len(node), _PIECE_MEMBERS // 8):
            yield node[at : at + _PIECE_MEMBERS // 8]
        return
    items = iter(node.items())
    while block := dict(islice(items, _PIECE_MEMBERS // 8)):
        yield block


def _is_large(node: Tree) -> bool:
    """Whether a list or an object has more members at all depths than a piece."""
    left = _PIECE_MEMBERS
    stack = [node]
    while stack:
        one = stack.pop()
        kind = type(one)
        if kind is dict or kind is list:
            left -= len(one)
            if left < 0:
                return True
            stack.extend(one.values() if kind is dict else one)
        elif kind is str and len(one) > _CHARACTERS_PER_MEMBER:
            left -= len(one) // _CHARACTERS_PER_MEMBER
            if left < 0:
                return True
    return False
