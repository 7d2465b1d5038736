"""YAML as a JSON tree, with limits (upstream: sigs.k8s.io/yaml over go-yaml v2).

libyaml parses the text into events; its own loader overflows the C stack on deep input.  The tree is built here, so that depth
and the expansion of aliases are bounded.  Only the first document counts.  Mappings are sorted, since upstream converts them
to JSON.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any

import yaml
from yaml import _yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from kapi.codecs import json_pieces
from kapi.codecs.json_reading import count_keys, may_have_duplicates
from kapi.machinery.checkpoint import checkpoint, engage
from kapi.machinery.each import elements
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.golang import float32_text, float_text, is_int64, json_integer, syntax
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree

MAX_DEPTH = 240
MAX_NODES = 100_000  # scalars, lists and mappings of a document: more take seconds, and no real object has so many
MAX_ALIASED = 100_000  # nodes that aliases may add; in larger documents up to ten times the document's own nodes

_TRUE = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
_NULL = frozenset(["", "~", "null", "Null", "NULL"])
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z", re.ASCII).match
_MISPLACED_UNDERSCORE = re.compile(r"(?<![0-9])_|_(?![0-9])", re.ASCII).search
_INTEGER = re.compile(
    "(?P<sign>[-+]?)(?:0[bB](?P<binary>[01]+)|0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0[oO]?(?P<octal>[0-7]+)"
    "|(?P<decimal>0|[1-9][0-9]*))\\Z|0b(?P<signed>[-+][01]+)\\Z",
    re.ASCII,
).match
_BASES = {"binary": 2, "signed": 2, "octal": 8, "decimal": 10, "hexadecimal": 16}
_UINT64_END = 1 << 64
_JSON_EXPONENT = 1e21  # from this number on floats have an exponent in JSON
_MAX_DECIMAL_DIGITS = 20  # digits of a 64-bit number
_SPECIAL = {
    ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan,
    ".inf": math.inf, ".Inf": math.inf, ".INF": math.inf, "+.inf": math.inf, "+.Inf": math.inf, "+.INF": math.inf,
    "-.inf": -math.inf, "-.Inf": -math.inf, "-.INF": -math.inf,
}  # fmt: skip
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]").search
_PREFIX = "tag:yaml.org,2002:"


class YAMLError(ValueError):
    """Malformed YAML, or YAML beyond the limits; the text is upstream's."""


class TooLarge(YAMLError):
    """A document that would be larger than ``max_bytes`` with each alias replaced by its text."""

    def __init__(self) -> None:
        super().__init__("yaml: document contains excessive aliasing")


def loads(data: bytes, max_nodes: float = MAX_NODES, max_bytes: float = math.inf) -> tuple[Tree, list[str]]:
    """The tree of the first document and the duplicate keys in it: ``line 4: key "k" already set in map``.

    An alias is the node itself, not a copy.  ``max_nodes``: ``math.inf`` when no request waits meanwhile.
    ``max_bytes`` limits the document with each alias replaced by its text.  Raises YAMLError.
    """
    if data[:1] == b"{":  # most clients declare JSON as YAML
        try:
            return _from_json(data), []
        except (ValueError, RecursionError):
            pass
    if _LINE_BOM in data:
        tree, duplicates = loads(data.replace(_LINE_BOM, b"\n" + _STAND_IN.encode()), max_nodes, max_bytes)
        return _with_bom(tree), [_with_bom(one) for one in duplicates]
    engage()  # a short text may become a large tree
    parser = _yaml.CParser(data)
    try:
        return _Builder(parser, max_nodes, max_bytes - len(data)).document()
    except yaml.MarkedYAMLError as error:
        raise YAMLError(f"yaml: {_place(error)}{error.problem}") from None
    except yaml.reader.ReaderError as error:
        raise YAMLError(f"yaml: {_reader_problem(error)}") from None
    finally:
        parser.dispose()


_LINE_BOM, _STAND_IN = b"\n\xef\xbb\xbf", "\U0010fffd"  # the character is one that no text has


def _with_bom(node: Any) -> Any:
    """The tree of a document with byte order marks at the beginning of lines, which libyaml drops and go-yaml reads as text."""
    checkpoint()
    if isinstance(node, str):
        return node.replace(_STAND_IN, "\ufeff")
    if isinstance(node, dict):
        return {_with_bom(key): _with_bom(value) for key, value in node.items()}
    return [_with_bom(item) for item in node] if isinstance(node, list) else node


def _from_json(data: bytes) -> Tree:
    """The tree of a document that is JSON with the same meaning in YAML.  Raises ValueError or RecursionError for others."""
    if _SURROGATE(data):
        raise ValueError  # YAML does not have surrogate pairs
    tree = json_pieces.loads(data)
    if may_have_duplicates(data, count_keys(tree)):
        raise ValueError
    read = _as_read(tree, 0)
    for one in (tree, read):
        free_in_steps(one, len(data))
    return read


def _as_read(node: Tree, depth: int) -> Tree:
    """A JSON tree in the form of the YAML parser: mappings sorted, whole floats as integers."""
    if depth > MAX_DEPTH:
        raise RecursionError
    kind = type(node)
    if kind is dict:
        return {key: _as_read(node[key], depth + 1) for key in elements(ordered(node))}
    if kind is list:
        return [_as_read(item, depth + 1) for item in elements(node)]
    return _json_number(node) if kind is float else node


def _place(error: yaml.MarkedYAMLError) -> str:
    line = 0
    for mark in (error.problem_mark, error.context_mark):
        if mark is not None and mark.line:
            line = mark.line + (1 if isinstance(error, yaml.scanner.ScannerError) else 0)
            break
    return f"line {line}: " if line else ""


def _reader_problem(error: yaml.reader.ReaderError) -> str:
    return str(error.reason).removeprefix("'") or "control characters are not allowed"


class _Builder:
    """Builds the tree of one document from parser events."""

    def __init__(self, parser: Any, max_nodes: float, max_aliased_bytes: float) -> None:
        self.next = parser.get_event
        self.max_nodes = max_nodes
        self.max_aliased_bytes = max_aliased_bytes
        self.anchors: dict[str, tuple[Tree, int, int]] = {}  # anchor -> node, number of nodes in it, bytes of its text
        self.duplicates: list[str] = []
        self.nodes = 0
        self.bytes = 0  # size of the texts of all nodes
        self.aliased = 0  # nodes added by aliases
        self.aliased_bytes = 0

    def document(self) -> tuple[Tree, list[str]]:
        self.next()  # stream start
        event = self.next()
        if not isinstance(event, DocumentStartEvent):
            return None, []
        tree = self.node(self.next(), 0)
        event = self.next()
        assert isinstance(event, DocumentEndEvent)
        return tree, self.duplicates

    def node(self, event: object, depth: int, is_key: bool = False) -> Tree:
        if depth > MAX_DEPTH:
            raise YAMLError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        self.nodes += 1
        checkpoint()
        if isinstance(event, AliasEvent):
            return self.alias(event)
        if self.nodes - self.aliased > self.max_nodes:
            raise YAMLError(f"yaml: document has more than {self.max_nodes} nodes")
        nodes, size = self.nodes, self.bytes
        self.bytes += 1  # the separator before the next node
        if isinstance(event, ScalarEvent):
            text: str = event.value
            self.bytes += len(text) if text.isascii() else len(text.encode())
            tree: Tree = _scalar(event)
            if type(tree) is float and not is_key:
                tree = _json_number(tree)
        elif isinstance(event, SequenceStartEvent):
            tree = self.sequence(depth)
        else:
            assert isinstance(event, MappingStartEvent)
            tree = self.mapping(depth)
        if event.anchor:
            self.anchors[event.anchor] = (tree, self.nodes - nodes + 1, self.bytes - size)
        return tree

    def alias(self, event: AliasEvent) -> Tree:
        try:
            tree, nodes, size = self.anchors[event.anchor or ""]
        except KeyError:
            raise YAMLError(f"yaml: unknown anchor '{event.anchor}' referenced") from None
        self.nodes += nodes
        self.bytes += size
        self.aliased += nodes
        self.aliased_bytes += size
        if self.aliased > MAX_ALIASED and self.aliased > 10 * (self.nodes - self.aliased):
            raise YAMLError("yaml: document contains excessive aliasing")
        if self.aliased_bytes > self.max_aliased_bytes:
            raise TooLarge
        return tree

    def sequence(self, depth: int) -> list[Tree]:
        items = []
        while not isinstance(event := self.next(), SequenceEndEvent):
            items.append(self.node(event, depth + 1))
        return items

    def mapping(self, depth: int) -> Object:
        entries: Object = {}
        merged: Object = {}
        while not isinstance(event := self.next(), MappingEndEvent):
            line = event.start_mark.line + 1
            merges = isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0]
            key = self.node(event, depth + 1, True)
            value_event = self.next()
            value = self.node(value_event, depth + 1)
            if merges:
                for source in value if isinstance(value, list) else [value]:
                    if not isinstance(source, dict):
                        raise YAMLError("yaml: map merge requires map or sequence of maps as the value")
                    for key, item in source.items():
                        merged.setdefault(key, item)
                continue
            name = _key(key, value)
            if name in entries:
                self.duplicates.append(f"line {line}: key {syntax(key)} already set in map")
            entries[name] = value
        if merged:
            entries = {**merged, **entries}
        return dict(sorted(entries.items()))


def _key(key: object, value: Tree) -> str:
    """A mapping key in JSON.  Raises YAMLError for an impossible key; the value is for the error's text."""
    if isinstance(key, str):
        return key
    if key is True:
        return "true"
    if key is False:
        return "false"
    if isinstance(key, int) and is_int64(key):
        return str(key)
    if isinstance(key, float):
        shown = float32_text(key)
        return _INFINITIES.get(shown, shown)
    if isinstance(key, dict | list):
        raise YAMLError(f"yaml: invalid map key: {syntax(key, _MAPPING)}")
    kind, text = ("%!s(<nil>)", "<nil>") if key is None else ("uint64", f"{key:#x}")
    raise YAMLError(f"unsupported map key of type: {kind}, key: {text}, value: {syntax(value, _MAPPING)}")


_INFINITIES = {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}
_MAPPING = "map[interface {}]interface {}"


def _scalar(event: ScalarEvent) -> Tree:
    text: str = event.value
    tag = event.tag
    if tag in (None, "!") or event.implicit[0]:
        if not event.implicit[0]:
            return text
        return resolve(text)
    tag = tag.removeprefix(_PREFIX)
    if tag == "str":
        return text
    if tag == "binary":
        try:
            return base64.b64decode(text, validate=False).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            raise YAMLError("yaml: !!binary value contains invalid base64 data") from None
    if tag not in _TYPES:
        return text
    value = resolve(text)
    found = next(name for name, kinds in _TYPES.items() if isinstance(value, kinds))
    if found == "int" and tag == "float" and is_int64(value):
        return float(value)
    if found != tag:
        raise YAMLError(f"yaml: cannot decode !!{found} `{text}` as a !!{tag}")
    return value


#: types of a resolved scalar; bool is a subclass of int
_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "null": type(None), "str": str}


def resolve(text: str) -> Tree:
    """The value of a plain scalar as in go-yaml v2: YAML 1.1 with its booleans and octal numbers, infinities and NaN."""
    if text in _NULL:
        return None
    first = text[0]
    if first in "yYnNtTfFoO":
        if text in _TRUE:
            return True
        return False if text in _FALSE else text
    if first not in "+-.0123456789":
        return text
    if text in _SPECIAL:
        return _SPECIAL[text]
    plain = text.replace("_", "")
    number = _integer(plain)
    if number is not None:
        return number
    if first == "." and plain != text and _MISPLACED_UNDERSCORE(text):
        return text
    return found if _FLOAT(plain) and not math.isinf(found := float(plain)) else text


def _integer(text: str) -> int | None:
    """An integer of 64 bits in any of Go's notations (``strconv.ParseInt`` with base 0); None for all other texts."""
    found = _INTEGER(text)
    if found is None:
        return None
    kind = found.lastgroup
    assert kind is not None
    digits = found[kind]
    if kind == "decimal" and len(digits) > _MAX_DECIMAL_DIGITS:
        return None
    number = int(digits, _BASES[kind]) * (-1 if found["sign"] == "-" else 1)
    return number if is_int64(number) or found["sign"] == "" and 0 < number < _UINT64_END else None


def _json_number(number: float) -> Tree:
    """A float after conversion to JSON and back: a whole float becomes an integer, with zeros for missing digits.

    Raises YAMLError for NaN and infinities.
    """
    if math.isnan(number) or math.isinf(number):
        raise YAMLError(f"json: unsupported value: {float_text(number)}")
    if not number.is_integer() or abs(number) >= _JSON_EXPONENT:
        return number
    whole = json_integer(number)
    return whole if is_int64(whole) or 0 < whole < _UINT64_END else number
