"""Writes trees as YAML in the API's form (upstream: sigs.k8s.io/yaml over go-yaml v2): sorted keys, block style."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

import yaml
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from kapi.codecs.yaml_reading import resolve
from kapi.machinery.each import elements
from kapi.machinery.golang import float_json, float_text, is_int64
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Tree

_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:$|[Tt ]|[ \t]+[0-9])")
_TEXT, _MAPPING, _SEQUENCE, _NUMBER = (f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq", "float"))
_READ_AS_INTEGERS = range(-(1 << 63), 1 << 64)
_BOM = "\ufeff"
#: the letters of Go's escapes, by character; others are escaped by their number
_ESCAPES = dict(zip('\0\a\b\t\n\v\f\r\x1b"\\\x85\xa0\u2028\u2029', '0abtnvfre"\\N_LP', strict=True))
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")


class _Dumper(yaml.CSafeDumper):
    """libyaml's emitter, and PyYAML's representation of numbers and constants."""


def _style(text: str) -> str | None:
    if "\n" in text:
        return "|"
    return '"' if _needs_quotes(text) else None


def _needs_quotes(text: str) -> bool:
    """Whether a plain scalar of this text would be read as something else.

    Upstream writes the key ``<<`` without quotes, and then reads it as a merge.
    """
    return not isinstance(resolve(text), str) or text == "<<" or bool(_TIMESTAMP.match(text) or _BASE60.match(text))


def _number(value: float) -> str:
    """A number as in Go: outside of int64 it is a float64, which is written as JSON, and then read as YAML."""
    if isinstance(value, int) and is_int64(value):
        return str(value)
    text = float_json(value)
    return text if text.lstrip("-").isdigit() and int(text) in _READ_AS_INTEGERS else float_text(float(value))


def _order(one: str, other: str) -> int:
    """Compares keys as go-yaml: from their first difference on, digits as numbers, letters after all other characters."""
    at = _first_difference(one, other)
    if at == min(len(one), len(other)):
        return len(one) - len(other)
    letters = one[at].isalpha(), other[at].isalpha()
    if any(letters):
        return letters[0] - letters[1] or ord(one[at]) - ord(other[at])
    before = one[:at]
    begun = "0" in (one[at], other[at]) and bool(before[len(before.rstrip(_DIGITS)) :].strip("0"))
    numbers = [text[: len(text) - len(text.lstrip(_DIGITS))] for text in (one[at:], other[at:])]
    difference = _int64(numbers[0], begun) - _int64(numbers[1], begun)
    return difference or len(numbers[0]) - len(numbers[1]) or ord(one[at]) - ord(other[at])


def _first_difference(one: str, other: str) -> int:
    """The index of the first difference; the length of the shorter text when the other begins with it."""
    low, high = 0, min(len(one), len(other)) + 1  # prefixes of the length ``low`` are equal, of the length ``high`` not
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _int64(digits: str, begun: bool) -> int:
    """The number as an int64, which wraps around; ``begun``: there is a 1 before these digits."""
    number = int(f"{begun:d}{digits}"[-_INT64_DIGITS:])
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


_DIGITS = "0123456789"
_ORDER = cmp_to_key(_order)
_INT64_DIGITS = 64  # earlier digits are multiplied by 10 ** 64, which is 0 in 64 bits


class _Writer:
    """Sends the tree to libyaml's emitter event by event, with checkpoints."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self._dumper: Any = _Dumper(self.stream, default_flow_style=False, allow_unicode=True, width=80)
        self._emit = self._dumper.emit
        self._escaped: list[str] = []  # texts that begin with a byte order mark

    def document(self, tree: object) -> str:
        emit = self._emit
        try:
            emit(StreamStartEvent())
            emit(DocumentStartEvent(explicit=False))
            self._node(tree)
            emit(DocumentEndEvent(explicit=False))
            emit(StreamEndEvent())
        finally:
            self._dumper.dispose()
        text = self.stream.getvalue()
        return _PLACE.sub(lambda found: _all_escaped(self._escaped[int(found[1])]), text) if self._escaped else text

    def _node(self, node: object) -> None:
        emit = self._emit
        if isinstance(node, str):
            self._scalar(_TEXT, node, _style(node))
        elif isinstance(node, dict):
            emit(MappingStartEvent(None, _MAPPING, True, flow_style=not node))
            for name in elements(ordered(node, _ORDER)):
                self._scalar(_TEXT, name, _style(name))
                self._node(node[name])
            emit(MappingEndEvent())
        elif isinstance(node, Sequence):
            emit(SequenceStartEvent(None, _SEQUENCE, True, flow_style=not node))
            for item in elements(node):
                self._node(item)
            emit(SequenceEndEvent())
        elif isinstance(node, int | float) and not isinstance(node, bool):
            self._emit(ScalarEvent(None, _NUMBER, (True, False), _number(node)))
        else:
            scalar: Tree = self._dumper.represent_data(node)
            self._scalar(scalar.tag, scalar.value, scalar.style)

    def _scalar(self, tag: str, text: str, style: str | None) -> None:
        if text.startswith(_BOM):
            self._escaped.append(text)
            text = f"{_BOM}\0{len(self._escaped) - 1}"
        self._emit(ScalarEvent(None, tag, (True, tag == _TEXT), text, style=style))


_PLACE = re.compile(r'"\\uFEFF\\0(\d+)"')


def _all_escaped(text: str) -> str:
    """A text that begins with a byte order mark: go-yaml takes each of its characters for one."""
    return '"' + "".join("\\" + (_ESCAPES.get(one) or _number_escape(ord(one))) for one in text) + '"'


def _number_escape(number: int) -> str:
    return f"x{number:02X}" if number <= 0xFF else f"u{number:04X}" if number <= 0xFFFF else f"U{number:08X}"


def dump_yaml(tree: object) -> bytes:
    """A JSON tree as one YAML document."""
    text = _Writer().document(tree)
    return text.removesuffix("...\n").encode("utf-8")  # the end mark after kept line breaks; upstream writes none
