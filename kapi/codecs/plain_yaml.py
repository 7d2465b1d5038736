"""Reads the simplest YAML: block mappings and lists of simple strings, which kapi and kubectl write into a kubeconfig.

The import of PyYAML takes a tenth of the time of a client command.  ``yaml_reading`` reads all other texts, and returns the same
trees for these.
"""

from __future__ import annotations

from kapi.machinery.tree import Object, Tree

_MAX_DEPTH = 20
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_OF_KEYS = _LETTERS | frozenset("0123456789-_")
_OF_STRINGS = _OF_KEYS | frozenset("+/=.@:")
_OTHER_TYPES = frozenset(["y", "yes", "n", "no", "true", "false", "on", "off", "null"])


class _Other(Exception):
    """The text has a construct that this module does not read."""


def loads(data: bytes) -> Object | None:
    """The mapping of a text; None for a text that is not of this kind."""
    try:
        lines = data.decode("ascii").split("\n")
        reading = _Reading([(len(line) - len(line.lstrip(" ")), line.lstrip(" ")) for line in lines if line])
        found = reading.mapping(0)
        return found if found and reading.at == len(reading.lines) else None
    except (UnicodeDecodeError, _Other):
        return None


class _Reading:
    def __init__(self, lines: list[tuple[int, str]]) -> None:
        self.lines = lines  # indentation and text
        self.at = 0
        self.depth = 0

    def _here(self) -> tuple[int, str]:
        return self.lines[self.at] if self.at < len(self.lines) else (-1, "")

    def mapping(self, indent: int) -> Object:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _Other
        found: Object = {}
        while True:
            there, text = self._here()
            if there < indent or there == indent and text.startswith("- "):
                break
            key, colon, rest = text.partition(":")
            if (
                there > indent
                or not colon
                or key in found
                or not _is_simple(key, _OF_KEYS)
                or rest[:1] not in ("", " ")
            ):
                raise _Other
            self.at += 1
            found[key] = _string(rest[1:]) if rest else self._below(indent)
        self.depth -= 1
        return dict(sorted(found.items()))

    def _below(self, indent: int) -> Tree:
        there, text = self._here()
        if there < indent or there == indent and not text.startswith("- "):
            raise _Other  # null
        return self._list(there) if text.startswith("- ") else self.mapping(there)

    def _list(self, indent: int) -> list[Tree]:
        found: list[Tree] = []
        while True:
            there, text = self._here()
            if there < indent or there == indent and not text.startswith("- "):
                return found
            if there > indent:
                raise _Other
            item = text[2:]
            if item.endswith(":") or ": " in item:
                self.lines[self.at] = (indent + 2, item)
                found.append(self.mapping(indent + 2))
            else:
                self.at += 1
                found.append(_string(item))


def _is_simple(text: str, allowed: frozenset[str]) -> bool:
    return text[:1] in _LETTERS and text.lower() not in _OTHER_TYPES and allowed.issuperset(text)


def _string(text: str) -> Tree:
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1 and _OF_STRINGS.issuperset(text[1:-1]):
        return text[1:-1]
    if text == "{}":
        return {}
    if not _is_simple(text, _OF_STRINGS) or text.endswith(":"):
        raise _Other
    return text
