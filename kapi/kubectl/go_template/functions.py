"""The functions of templates: Go's own (upstream: ``text/template`` funcs.go, ``fmt``), and kubectl's (cli-runtime)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote_plus

from kapi.kubectl.go_template.nodes import MISSING, Int, absent, type_name
from kapi.machinery.golang import base64_bytes, quote, syntax, value_text
from kapi.machinery.tree import Tree

_VERB = re.compile(r"%([-+# 0]*)(\*|\d+)?(?:\.(\*|\d*))?(?:\[(\d{1,6})\])?(.?)", re.DOTALL)
MAX_SIZE = 1_000_000  # characters of width and precision, as Go
_KINDS = {"bool": "bool", "int": "int", "int64": "int", "float64": "float", "string": "string"}
_HTML = {"'": "&#39;", '"': "&#34;", "&": "&amp;", "<": "&lt;", ">": "&gt;", "\0": "\ufffd"}
_JS = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


def sprint(values: Sequence[Tree]) -> str:
    """Go's ``Sprint``: spaces are added between operands when neither is a string."""
    out, before = "", None
    for number, value in enumerate(values):
        if number and not isinstance(value, str) and not isinstance(before, str):
            out += " "
        out += value_text(None if absent(value) else value)
        before = value
    return out


def sprintf(form: str, *values: object) -> str:
    position, reordered = 0, False

    def star(text: str | None) -> str | None:
        nonlocal position
        if text != "*":
            return text
        value = values[position] if position < len(values) else None
        position += 1
        return str(value) if isinstance(value, int) and abs(value) <= MAX_SIZE else None

    def shown(match: re.Match[str]) -> str:
        nonlocal position, reordered
        flags, index, verb = match[1], match[4], match[5]
        width, precision = star(match[2]), star(match[3])
        if width is not None and width.startswith("-"):
            flags, width = flags + "-", width[1:]
        if index:
            position, reordered = int(index) - 1, True
        if not verb:
            return "%!(NOVERB)"
        if verb == "%":
            return "%"
        if not 0 <= position < len(values):
            return f"%!{verb}({'BADINDEX' if index else 'MISSING'})"
        value = values[position]
        position += 1
        digits = None if precision is None else min(int(precision or 0), MAX_SIZE)
        return _verb(verb, flags, min(int(width or 0), MAX_SIZE), digits, None if absent(value) else value)

    out = _VERB.sub(shown, form)
    if values[position:] and not reordered:
        rest = ("<nil>" if absent(one) else f"{type_name(one)}={value_text(one)}" for one in values[position:])
        out += f"%!(EXTRA {', '.join(rest)})"
    return out


def _verb(verb: str, flags: str, width: int, precision: int | None, value: object) -> str:
    if verb == "T":
        return _padded(type_name(value), flags, width)
    if verb == "v" and "#" in flags and isinstance(value, dict | list):
        return syntax(value)
    if isinstance(value, dict) and verb != "p":
        inner = " ".join(
            f"{_verb(verb, flags, width, precision, key)}:{_verb(verb, flags, width, precision, value[key])}"
            for key in sorted(value)
        )
        return f"map[{inner}]"
    if isinstance(value, list) and verb != "p":
        return "[" + " ".join(_verb(verb, flags, width, precision, one) for one in value) + "]"
    text = _formatted(verb, flags, precision, value)
    if text is None:
        kind = "<nil>" if value is None else f"{type_name(value)}={value_text(value)}"
        return f"%!{verb}({kind})"
    zeros = "0" in flags and "-" not in flags and isinstance(value, int | float) and not isinstance(value, bool)
    if zeros and verb in "dboxXeEfFgGv":
        sign = text[0] if text[:1] in ("+", "-", " ") else ""
        return sign + text[len(sign) :].rjust(width - len(sign), "0")
    return _padded(text, flags, width)


def _padded(text: str, flags: str, width: int) -> str:
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _formatted(verb: str, flags: str, precision: int | None, value: object) -> str | None:
    """None when the verb does not apply to such a value."""
    match value:
        case None:
            return "<nil>" if verb == "v" else None
        case bool():
            return value_text(value) if verb in "tv" else None
        case int():
            return _whole(verb, flags, precision, value)
        case float():
            return _float(verb, flags, precision, value)
        case str():
            return _text(verb, flags, precision, value)
    return None


def _text(verb: str, flags: str, precision: int | None, value: str) -> str | None:
    cut = value if precision is None else value[:precision]
    if verb == "v" and "#" in flags:
        return quote(value)
    match verb:
        case "s" | "v":
            return cut
        case "q":
            return f"`{cut}`" if "#" in flags and "`" not in cut else quote(cut)
        case "x" | "X":
            between = " " if " " in flags else ""
            found = between.join(f"{byte:02x}" for byte in cut.encode())
            return found.upper() if verb == "X" else found
    return None


def _whole(verb: str, flags: str, precision: int | None, value: int) -> str | None:
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    size = abs(value)
    match verb:
        case "d" | "v":
            digits = str(size)
        case "b" | "o" | "x" | "X":
            digits = format(size, verb)
            sign += {"b": "0b", "o": "0", "x": "0x", "X": "0X"}[verb] if "#" in flags else ""
        case "O":
            digits = "0o" + format(size, "o")
        case "c":
            return chr(value) if 0 <= value < 0x110000 else "\ufffd"
        case "q":
            return "'" + (chr(value) if chr(value) != "'" else "\\'") + "'" if 0 <= value < 0x110000 else "'\ufffd'"
        case "U":
            return f"U+{value:04X}"
        case _:
            return None
    return sign + (digits if precision is None else digits.rjust(precision, "0"))


def _float(verb: str, flags: str, precision: int | None, value: float) -> str | None:
    if verb not in "vgGeEfF":
        return None
    sign = "+" if "+" in flags and value >= 0 else " " if " " in flags and value >= 0 else ""
    if verb == "v" or verb in "gG" and precision is None:
        text = value_text(value)
        return sign + (text.upper() if verb == "G" else text)
    text = format(value, f".{6 if precision is None else precision}{verb}")
    return sign + text


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
        return base64_bytes(text).decode("utf-8", "replace")
    except ValueError as error:
        raise FunctionError(f"base64 decode failed: {error}") from None


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
    "ne": Signature(lambda left, right: not _eq(left, right), 2, 2),
    "lt": Signature(_lt, 2, 2),
    "le": Signature(_le, 2, 2),
    "gt": Signature(lambda left, right: not _le(left, right), 2, 2),
    "ge": Signature(lambda left, right: not _lt(left, right), 2, 2),
    "exists": Signature(_exists, 1, None),
    "base64decode": Signature(_base64decode, 1, 1, (0,)),
}
