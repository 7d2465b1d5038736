"""Parses JSON as Go does: with Go's error texts, and optionally with duplicate keys.

orjson parses first.  Texts that it refuses, or that may have duplicate keys, are parsed again by the slower standard library.
Large texts are parsed by the library's scanner in Python, with checkpoints.  With a hook for pairs the scanner in C takes a tenth
of a second for 3 MB and cannot be interrupted; the scanner in Python takes three times as long, but other work runs meanwhile.
Upstream: Go's ``encoding/json`` scanner, sigs.k8s.io/json.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterator
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]  # typeshed leaves them out
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NoReturn

import orjson

from kapi.codecs import json_pieces
from kapi.machinery import checkpoint as checkpoints
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object, Tree

_MAX_INTEGER_LENGTH = 20  # characters of a 64-bit number
_PAIRS_PER_CHECKPOINT = 10_000
_MAX_GO_DEPTH = 10_000  # levels of nesting
_WORDS = {"t": "true", "f": "false", "n": "null"}
_SPACES = b" \n\t\r"
#: a string, possibly without its end: matched so that the search skips it
_STRING = r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
_STRING_OR_CONSTANT = re.compile(_STRING + "|-?Infinity|NaN", re.DOTALL)
_STRING_OR_BRACKET = re.compile(_STRING + r"|[][{}]", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_HALF_SURROGATE = re.compile("[\ud800-\udfff]")
_PARTIAL_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.(?![0-9])|(?:\.[0-9]+)?(?:[eE][+-]?[0-9]*)?))?")


class JSONError(ValueError):
    """Malformed JSON; the text is Go's."""


class NumberTooLarge(JSONError):
    """A number too large for a float64.  ``number`` is its text; ``tree`` has an infinity in its place."""

    def __init__(self, number: str, tree: Tree) -> None:
        super().__init__(f"json: cannot unmarshal number {number} into Go value of type float64")
        self.number = number
        self.tree = tree


class Duplicated(Object):
    """A mapping with a duplicate key.  As a dict it has the last values; ``pairs`` has all pairs, in order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Tree]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


MAX_PROBLEMS = 100  # the most problems that strict decoding reports


class Literal(float):
    """A number with a fraction or an exponent; ``text`` is its JSON text."""

    text: str

    def __new__(cls, text: str) -> Literal:
        checkpoint()
        number = super().__new__(cls, text)
        number.text = text
        return number


def loads(data: bytes) -> Tree:
    """The tree of a JSON text.  Raises JSONError, and NumberTooLarge when a number exceeds a float64."""
    try:
        tree = json_pieces.loads(data)
    except orjson.JSONDecodeError:
        tree = _loads_slowly(data)
    free_in_steps(tree, len(data))
    return tree


def may_have_duplicates(data: bytes, keys: int) -> bool:
    """False only if a text whose tree has ``keys`` keys has no duplicate keys.  Cheap."""
    checkpoint()
    if data.count(b'":') > keys:
        return True
    # a duplicate key may still have blanks before its colon
    for space in _SPACES:  # a number, since the search for a number is fastest
        if space in data and data.find(b"%c:" % space) >= 0:
            return True
    return False


def count_keys(tree: object) -> int:
    """The number of keys in a tree, at all depths."""
    keys = 0
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            checkpoint()
            keys += len(node)
            stack.extend(node.values())
        elif isinstance(node, list):
            checkpoint()
            stack.extend(node)
    return keys


def loads_exactly(data: bytes) -> Tree:
    """``loads`` with Duplicated for mappings with duplicate keys, and Literal for floats.  Raises JSONError.

    A number beyond a float64 is an infinite Literal, which the decoder of the field's type reports.
    """
    tree = _parse(data, _mapping, object_pairs_hook=_mapping, parse_float=Literal, parse_int=_exact_integer)
    free_in_steps(tree, len(data))
    return tree


def duplicates(tree: object, path: str = "") -> Iterator[str]:
    """The paths of duplicate keys in the order of the text: ``spec.replicas``, ``[0].op``."""
    if isinstance(tree, list):
        for position, item in enumerate(elements(tree)):
            yield from duplicates(item, f"{path}[{position}]")
    elif isinstance(tree, dict):
        pairs = tree.pairs if isinstance(tree, Duplicated) else tree.items()
        seen = set()
        for key, value in elements(pairs):
            below = f"{path}.{key}" if path else key
            if key in seen:
                yield below
            seen.add(key)
            yield from duplicates(value, below)


def _mapping(pairs: list[tuple[str, Tree]]) -> Object:
    checkpoint()
    tree = dict(pairs[:_PAIRS_PER_CHECKPOINT])
    for at in range(_PAIRS_PER_CHECKPOINT, len(pairs), _PAIRS_PER_CHECKPOINT):
        checkpoint()
        tree.update(pairs[at : at + _PAIRS_PER_CHECKPOINT])
    return tree if len(tree) == len(pairs) else Duplicated(pairs)


class _ConstantError(ValueError):
    """NaN or Infinity, which JSON does not have."""


def _no_constant(name: str) -> NoReturn:
    raise _ConstantError(name)


def _loads_slowly(data: bytes) -> Tree:
    """Parses texts that orjson refuses: malformed texts, invalid UTF-8 and half surrogates, which Go repairs, huge numbers."""
    infinite: list[str] = []

    def number(text: str) -> float:
        value = float(text)
        if value in (math.inf, -math.inf):
            infinite.append(text)
        return value

    def integer(text: str) -> int | float:
        value = int(text) if len(text) <= _MAX_INTEGER_LENGTH else 1 << 64
        return value if -(1 << 63) <= value < 1 << 64 else number(text)

    tree = _parse(data, dict, parse_float=number, parse_int=integer)
    if infinite:
        raise NumberTooLarge(infinite[0], tree)
    return tree


def _parse(data: bytes, mapping: Callable[[list[tuple[str, Tree]]], Tree], **hooks: object) -> Tree:
    text = text_of(data)
    checkpoint()
    many = text.count("[") + text.count("{") > _MAX_GO_DEPTH
    deepest, at = _deepest(text) if many else ("", len(text))
    try:
        tree = _scan(text, parse_constant=_no_constant, **hooks)
        checkpoint()
        if at == len(text):
            return _without_surrogates(tree, mapping)
    except (json.JSONDecodeError, _ConstantError) as error:
        if at == len(text) or getattr(error, "pos", at) < at:
            shown = data.decode("utf-8", "surrogateescape")  # keeps the bytes of invalid UTF-8, which errors show
            raise JSONError(_explain(shown, error)) from None
    except RecursionError:  # perhaps below Go's limit: Python's limit depends on its version
        deepest = deepest or _deepest(text)[0]
    raise JSONError(f"invalid character '{deepest}' exceeded max depth")


def text_of(data: bytes) -> str:
    """Decodes bytes; as in Go each byte of invalid UTF-8 becomes U+FFFD."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        decoder = _Decoder("kapi.replace_bytes")
        pieces = []
        for start in range(0, len(data), _BYTES_PER_CHECKPOINT):
            checkpoint()
            pieces.append(decoder.decode(data[start : start + _BYTES_PER_CHECKPOINT]))
        return "".join(pieces) + decoder.decode(b"", final=True)


def _scan(text: str, **hooks: Any) -> Tree:
    if checkpoints.running is None or len(text) < LARGE:
        return json.loads(text, **hooks)
    try:
        return json.loads(text, cls=SteppingDecoder, **hooks)
    except RecursionError:  # the decoder in C allows a greater depth
        return json.loads(text, **hooks)


def _exact_integer(text: str) -> int | Literal:
    value = int(text) if len(text) <= _MAX_INTEGER_LENGTH else 1 << 64
    return value if -(1 << 63) <= value < 1 << 64 else Literal(text)


def _replace_bytes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("kapi.replace_bytes", _replace_bytes)
_Decoder = codecs.getincrementaldecoder("utf-8")
_BYTES_PER_CHECKPOINT = 4096  # each byte may be an error, which takes a microsecond


def _without_surrogates(node: object, mapping: Callable[[list[tuple[str, Tree]]], Tree]) -> Tree:
    """Replaces each half of a surrogate pair by U+FFFD, also in keys."""
    if isinstance(node, str):
        return node if node.isascii() else _HALF_SURROGATE.sub("\ufffd", node)
    if isinstance(node, dict):
        pairs = node.pairs if isinstance(node, Duplicated) else node.items()
        return mapping(
            [(_without_surrogates(key, mapping), _without_surrogates(value, mapping)) for key, value in elements(pairs)]
        )
    if isinstance(node, list):
        return [_without_surrogates(value, mapping) for value in elements(node)]
    return node


_ENDED = "unexpected end of JSON input"


def _shown(char: str) -> str:
    """A character as Go shows it, which reads only the first byte."""
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    first = chr(char.encode("utf-8", "surrogateescape")[0])
    return f"'{quote(first)[1:-1]}'"


def _invalid(text: str, position: int, where: str) -> str:
    if position >= len(text):
        return _ENDED
    return f"invalid character {_shown(text[position])} {where}"


def _cut(text: str, position: int, where: str) -> str:
    """The error of a text that ends too early: Go reads a blank after the end of the text."""
    return _invalid(text + " ", min(position, len(text)), where)


def _explain(text: str, error: ValueError) -> str:
    """Go's error for the first fault in a text, found from Python's error."""
    if isinstance(error, _ConstantError):
        name = str(error)
        found = elements(_STRING_OR_CONSTANT.finditer(text))
        position = next(one.start() for one in found if one[0] == name)
        if name == "-Infinity":
            return _cut(text, position + 1, "in numeric literal")
        return _invalid(text, position, "looking for beginning of value")
    assert isinstance(error, json.JSONDecodeError)
    message = error.msg
    # Python 3.13 reports the position of a comma before a closing bracket, older ones that of the bracket
    position = error.pos + message.startswith("Illegal trailing comma")
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    if message.startswith("Expecting property name") or message.endswith("before end of object"):
        return _invalid(text, position, "looking for beginning of object key string")
    if message.startswith("Expecting ':'"):
        return _invalid(text, position, "after object key")
    if message.startswith("Expecting ','"):
        broken = _number_before(text, position)
        if broken:
            return broken
        inside = _container(text[:position])
        return _invalid(text, position, "after object key:value pair" if inside == "{" else "after array element")
    if message.startswith("Expecting value") or message.endswith("before end of array"):
        return _explain_value(text, position)
    if message.startswith("Extra data"):
        return _number_before(text, position) or _invalid(text, position, "after top-level value")
    if message.startswith("Invalid control character"):
        return _invalid(text, error.pos, "in string literal")
    if message.startswith("Invalid \\uXXXX"):
        start = error.pos + 1 if text[error.pos : error.pos + 1] == "u" else error.pos
        for at in range(start, min(start + 4, len(text))):
            if text[at] not in "0123456789abcdefABCDEF":
                return _invalid(text, at, "in \\u hexadecimal character escape")
        return _ENDED if len(text) >= start + 4 else _cut(text, len(text), "in \\u hexadecimal character escape")
    if message.startswith("Invalid \\escape"):
        return _cut(text, error.pos + 1, "in string escape code")
    if message.startswith("Unexpected UTF-8 BOM"):
        return _invalid(text, 0, "looking for beginning of value")
    backslashes = len(text) - len(text.rstrip("\\"))  # of a string that does not end
    return _cut(text, len(text), "in string escape code") if backslashes % 2 else _ENDED


def _number_before(text: str, position: int) -> str:
    """The error of a number that ends too early, such as ``01`` and ``1.x``; "" when there is none."""
    if position >= len(text) or position == 0:
        return ""
    start = len(text[:position].rstrip("0123456789.eE+-"))
    if start == position or text[position] in " \t\r\n":
        return ""
    partial = _PARTIAL_NUMBER.match(text, start)
    end = partial.end() if partial else start
    if _NUMBER.fullmatch(text, start, end):
        return ""
    if text[end - 1] == ".":
        return _cut(text, end, "after decimal point in numeric literal")
    if text[end - 1] in "eE+-" and end - start > 1:
        return _cut(text, end, "in exponent of numeric literal")
    return ""


def _explain_value(text: str, position: int) -> str:
    char = text[position : position + 1]
    word = _WORDS.get(char)
    if word:
        for offset, expected in enumerate(word):
            at = position + offset
            if text[at : at + 1] != expected:
                return _cut(text, at, f"in literal {word} (expecting {_shown(expected)})")
    if char == "-":
        return _cut(text, position + 1, "in numeric literal")
    return _invalid(text, position, "looking for beginning of value")


def _container(prefix: str) -> str:
    """The innermost bracket that is open at the end of a text; "" when there is none."""
    depth: list[str] = []
    for found in elements(_STRING_OR_BRACKET.finditer(prefix)):
        match found[0]:
            case "[" | "{" as bracket:
                depth.append(bracket)
            case "]" | "}" if depth:
                depth.pop()
    return depth[-1] if depth else ""


def _deepest(text: str) -> tuple[str, int]:
    """The bracket with which a text exceeds Go's limit of depth, and its position.

    For a less deep text it is the bracket that opens the last level, with the length of the text.
    """
    depth, most, deepest = 0, 0, "["
    for found in elements(_STRING_OR_BRACKET.finditer(text)):
        bracket = found[0]
        depth += (bracket in "[{") - (bracket in "]}") if len(bracket) == 1 else 0
        if depth > most:
            most, deepest = depth, bracket
            if most > _MAX_GO_DEPTH:
                return deepest, found.start()
    return deepest, len(text)


def kind_of(value: object) -> str:
    """The kind of a JSON value in errors of Go's ``encoding/json``."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, dict):
        return "object"
    return "array"


LARGE = 256 * 1024  # characters from which SteppingDecoder is used
_VALUES_PER_CHECKPOINT = 100
Scan = Callable[[str, int], tuple[Tree, int]]


class SteppingDecoder(json.JSONDecoder):
    """A ``json.JSONDecoder`` with checkpoints and the same hooks."""

    def __init__(self, **hooks: Any) -> None:
        super().__init__(**hooks)
        self._left = _VALUES_PER_CHECKPOINT
        self.parse_object = self._object
        self.parse_array = self._array
        self.scan_once = py_make_scanner(self)

    def _object(self, place: tuple[str, int], strict: bool, scan: Scan, *hooks: object) -> Tree:
        return JSONObject(place, strict, self._stepping(scan), *hooks)

    def _array(self, place: tuple[str, int], scan: Scan) -> Tree:
        return JSONArray(place, self._stepping(scan))

    def _stepping(self, scan: Scan) -> Scan:
        def step(text: str, position: int) -> tuple[Tree, int]:
            self._left -= 1
            if not self._left:
                self._left = _VALUES_PER_CHECKPOINT
                checkpoint()
            return scan(text, position)

        return step
