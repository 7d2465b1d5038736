"""The functions of templates: Go's own, and kubectl's (upstream: ``text/template`` funcs.go, cli-runtime ``template.go``)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote_plus

from kapi.kubectl.go_template.printing import sprint, sprintf
from kapi.kubectl.go_template.values import MISSING, Int, absent, type_name
from kapi.machinery.tree import Tree


class FunctionError(Exception):
    """An error of a function about its arguments."""


@dataclass(frozen=True, slots=True)
class Signature:
    """``minimum`` and ``maximum`` are numbers of arguments, None for no limit; ``strings``: which ones must be strings."""

    function: Callable[..., object]
    minimum: int
    maximum: int | None
    strings: Sequence[int] = ()


def _len(item: object) -> Int:
    if isinstance(item, str):
        return Int(len(item.encode()))
    if isinstance(item, list | dict):
        return Int(len(item))
    if item is MISSING:
        raise FunctionError("reflect: call of reflect.Value.Type on zero Value")
    raise FunctionError("len of nil pointer" if item is None else f"len of type {type_name(item)}")


def _position(index: object, length: int) -> int:
    if absent(index):
        raise FunctionError("cannot index slice/array with nil")
    if not isinstance(index, int) or isinstance(index, bool):
        raise FunctionError(f"cannot index slice/array with type {type_name(index)}")
    if not 0 <= index <= length:
        raise FunctionError(f"index out of range: {index}")
    return index


def _index(item: object, *indices: object) -> Tree:
    if item is MISSING or item is None:
        raise FunctionError("index of untyped nil")
    for index in indices:
        if item is None:
            raise FunctionError("index of nil pointer")
        if isinstance(item, str | list):
            sequence: Tree = item.encode() if isinstance(item, str) else item
            position = _position(index, len(sequence))
            if position == len(sequence):
                raise FunctionError(f"index out of range: {position}")
            item = sequence[position]
        elif isinstance(item, dict):
            if absent(index):
                raise FunctionError("value is nil; should be of type string")
            if not isinstance(index, str):
                raise FunctionError(f"value has type {type_name(index)}; should be string")
            item = item.get(index)
        else:
            raise FunctionError(f"can't index item of type {type_name(item)}")
    return item


def _slice(item: object, *indices: object) -> Tree:
    if absent(item):
        raise FunctionError("slice of untyped nil")
    if len(indices) > 3:
        raise FunctionError(f"too many slice indexes: {len(indices)}")
    if not isinstance(item, str | list):
        raise FunctionError(f"can't slice item of type {type_name(item)}")
    if isinstance(item, str) and len(indices) == 3:
        raise FunctionError("cannot 3-index slice a string")
    sequence: Tree = item.encode() if isinstance(item, str) else item
    places = [_position(index, len(sequence)) for index in indices]
    for left, right in zip(places, places[1:], strict=False):
        if left > right:
            raise FunctionError(f"invalid slice index: {left} > {right}")
    begin, end = [*places[:2], *(0, len(sequence))[len(places[:2]) :]]
    found = sequence[begin:end]
    return found.decode("utf-8", "replace") if isinstance(item, str) else found


_KINDS = {"bool": "bool", "int": "int", "int64": "int", "float64": "float", "string": "string"}


def _eq(*arguments: object) -> bool:
    left, others = arguments[0], arguments[1:]
    if not others:
        raise FunctionError("missing argument for comparison")
    kind = _KINDS.get(type_name(left))
    for right in others:
        other = _KINDS.get(type_name(right))
        if kind != other:
            if not absent(left) and not absent(right):
                raise _incompatible(left, right)
        elif kind is None:
            for one in (left, right):
                if not absent(one):
                    raise FunctionError(f"non-comparable type {sprintf('%s', one)}: {type_name(one)}")
            return True
        elif left == right:
            return True
    return False


def _ne(left: object, right: object) -> bool:
    return not _eq(left, right)


def _incompatible(left: object, right: object) -> FunctionError:
    return FunctionError(f"incompatible types for comparison: {type_name(left)} and {type_name(right)}")


def _lt(left: Tree, right: Tree) -> bool:
    kind, other = _KINDS.get(type_name(left)), _KINDS.get(type_name(right))
    for one in (kind, other):
        if one is None:
            raise FunctionError("invalid type for comparison")
    if kind != other:
        raise _incompatible(left, right)
    if kind == "bool":
        raise FunctionError("invalid type for comparison")
    return bool(left.encode() < right.encode() if kind == "string" else left < right)


def _le(left: object, right: object) -> bool:
    return _lt(left, right) or _eq(left, right)


def _texts(arguments: Sequence[Tree]) -> str:
    if len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0]
    return sprint(arguments)


_HTML = {"'": "&#39;", '"': "&#34;", "&": "&amp;", "<": "&lt;", ">": "&gt;", "\0": "\ufffd"}
_JS = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(character, character) for character in text)


def _js(*arguments: object) -> str:
    return "".join(
        _JS.get(one) or (f"\\u{ord(one):04X}" if ord(one) < 0x20 or not one.isprintable() else one)
        for one in _texts(arguments)
    )


def _url(*arguments: object) -> str:
    return quote_plus(_texts(arguments), safe="~")


def _exists(item: object, *indices: object) -> bool:
    try:
        return not absent(_index(item, *indices))
    except FunctionError:
        return False


def _base64decode(text: str) -> str:
    try:
        compact = text.replace("\r", "").replace("\n", "")
        return base64.b64decode(compact, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise FunctionError(f"base64 decode failed: illegal base64 data at input byte {_illegal(compact)}") from None


def _illegal(text: str) -> int:
    """The offset of the first byte that is not valid in a base64 text."""
    known = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    for position, character in enumerate(text):
        if character not in known:
            return position
    return len(text) - len(text) % 4


def _call(*arguments: object) -> Tree:
    raise FunctionError("call of nil")


FUNCTIONS: dict[str, Signature] = {
    "and": Signature(_call, 1, None),
    "or": Signature(_call, 1, None),
    "not": Signature(lambda value: not value, 1, 1),
    "call": Signature(_call, 1, None),
    "html": Signature(lambda *given: _escaped(_texts(given), _HTML), 0, None),
    "js": Signature(_js, 0, None),
    "urlquery": Signature(_url, 0, None),
    "index": Signature(_index, 1, None),
    "slice": Signature(_slice, 1, None),
    "len": Signature(_len, 1, 1),
    "print": Signature(lambda *given: sprint(given), 0, None),
    "println": Signature(lambda *given: " ".join(sprint([one]) for one in given) + "\n", 0, None),
    "printf": Signature(sprintf, 1, None, (0,)),
    "eq": Signature(_eq, 1, None),
    "ne": Signature(_ne, 2, 2),
    "lt": Signature(_lt, 2, 2),
    "le": Signature(_le, 2, 2),
    "gt": Signature(lambda left, right: not _le(left, right), 2, 2),
    "ge": Signature(lambda left, right: not _lt(left, right), 2, 2),
    "exists": Signature(_exists, 1, None),
    "base64decode": Signature(_base64decode, 1, 1, (0,)),
}
