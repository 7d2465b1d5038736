"""``-o kyaml``: YAML in flow style, every string in quotes (upstream: KEP-5295, ``sigs.k8s.io/yaml/kyaml``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from math import isinf

from kapi.kubectl.printers.interface import Printer, typed, without_managed_fields
from kapi.machinery.go_json import json_text
from kapi.machinery.tree import Object, Tree

Order = Callable[[Iterable[str]], list[str]]

_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\v": "\\v", "\0": "\\0", "\x1b": "\\e",
    "\x85": "\\N", "\xa0": "\\_", "\u2028": "\\L", "\u2029": "\\P", '"': '\\"', "\\": "\\\\",
}  # fmt: skip
_FOLD = "\\\n"  # a line break that is not part of the text
_KEY = re.compile(r"[^\W](?:[\w./-]*[^\W])?").fullmatch
_WORDS = frozenset(("null", "true", "y", "yes", "on", "false", "n", "no", "off", "t", "f", "inf", "infinity", "nan"))
_PREFIXED = re.compile(r"0b[01]+|0o[0-7]+|0x[0-9a-f]+", re.IGNORECASE).fullmatch
_DECIMAL = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e-?[0-9]+)?", re.IGNORECASE).fullmatch
_HEX_FLOAT = re.compile(r"0x(?:[0-9a-f]+(?:\.[0-9a-f]*)?|\.[0-9a-f]+)p-?[0-9]+", re.IGNORECASE).fullmatch
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})").fullmatch


class KYAMLPrinter(Printer):
    """Each document begins with ``---``.  ``ordered``: keys are sorted."""

    def __init__(self, managed_fields: bool = False, *, ordered: bool = True) -> None:
        self._managed_fields, self._order = managed_fields, sorted if ordered else list

    def print(self, obj: Object) -> str:
        shown = obj if self._managed_fields else without_managed_fields(obj)
        return dump_kyaml(shown if self._order is sorted else typed(shown), self._order)

    def print_event(self, event: str, obj: Object) -> str:
        return dump_kyaml({"type": event, "object": obj}, _type_first)


def _type_first(keys: Iterable[str]) -> list[str]:
    """The order of keys in a watch event: ``type`` before ``object``."""
    found = sorted(keys)
    return found[::-1] if found == ["object", "type"] else found


def dump_kyaml(tree: Tree, order: Order = sorted) -> str:
    """A KYAML document; ``order`` sorts keys."""
    return f"---\n{_node(tree, 0, order)}\n"


def _node(value: Tree, level: int, order: Order) -> str:
    """``level`` is the indentation of its first line."""
    match value:
        case dict() if value:
            inner = "  " * (level + 1)
            lines = [f"{inner}{_key(key)}: {_node(value[key], level + 1, order)},\n" for key in order(value)]
            return f"{{\n{''.join(lines)}{'  ' * level}}}"
        case list() if value and all(isinstance(item, dict | list) for item in value):
            return f"[{', '.join(_node(item, level, order) for item in value)}]"
        case list() if value:
            inner = "  " * (level + 1)
            lines = [f"{inner}{_node(item, level + 1, order)},\n" for item in value]
            return f"[\n{''.join(lines)}{'  ' * level}]"
        case str():
            return _text(value, level + 1) if "\n" in value else f'"{_escaped(value)}"'
    return json_text(value)


def _key(key: str) -> str:
    """A key; without quotes when YAML parsers read it as a string."""
    if _KEY(key) is not None and not _reads_as_other(key):
        return key
    return f'"{_escaped(key)}"'.replace("\t", "\\t")


def _reads_as_other(key: str) -> bool:
    """Whether YAML parsers may read it as something else than a string: a word such as ``yes``, a number, a date."""
    return key.lower() in _WORDS or _is_number(key.replace("_", "")) or _is_date(key)


def _is_number(text: str) -> bool:
    """Whether it is a number of at most 64 bits."""
    if _PREFIXED(text) is not None:
        return int(text, 0) < 1 << 63
    return _HEX_FLOAT(text) is not None or (_DECIMAL(text) is not None and not isinf(float(text)))


def _is_date(text: str) -> bool:
    found = _DATE(text)
    if found is None:
        return False
    try:
        date(*map(int, found.groups()))
    except ValueError:
        return False
    return True


def _text(text: str, level: int) -> str:
    """A string of several lines, each on its own line; a backslash preserves blanks at its beginning."""
    indent = "  " * level
    lines = text.split("\n")
    last = lines.pop()
    shown = [_line(line, indent) + "\\n" for line in lines] + ([_line(last, indent)] if last else [])
    return f'"{_FOLD}{"".join(line + _FOLD for line in shown)}{indent}"'


def _line(line: str, indent: str) -> str:
    return f"{indent}{chr(92) if line[:1].isspace() else ' '}{_escaped(line)}"


def _escaped(text: str) -> str:
    return "".join(map(_character, text))


def _character(character: str) -> str:
    """A character, escaped for double quotes."""
    if character == "\t" or character.isprintable() and character not in '"\\':
        return character
    found = _ESCAPES.get(character)
    if found is not None:
        return found
    number = ord(character)
    if number < 0x20 or number == 0x7F:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
