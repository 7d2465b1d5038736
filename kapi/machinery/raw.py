"""JSON that is stored as the client wrote it (upstream: ``runtime.RawExtension``)."""

from __future__ import annotations

import json
import re

import msgspec
import orjson

from kapi.machinery.tree import Object

_SPACE = " \t\r\n"
_STRING_OR_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*+"?)|[ \t\r\n]+')
_ESCAPED = re.compile(rb"[<>&]|\xe2\x80[\xa8\xa9]")
_decode = json.JSONDecoder().raw_decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class RawObject(Object):
    """A tree with the JSON ``text`` it was decoded from.  Copies of objects share it: never change it."""

    __slots__ = ("text",)

    def __init__(self, tree: Object, text: bytes) -> None:
        super().__init__(tree)
        self.text = text


def text_of(value: object) -> bytes:
    """The JSON text of a value; for a plain tree the compact text of Go's encoder."""
    return value.text if isinstance(value, RawObject) else orjson.dumps(value)


def compacted(text: bytes) -> bytes:
    """The text as Go's encoder writes a json.RawMessage: without spaces, and with the characters of HTML markup escaped."""
    text = _STRING_OR_SPACE.sub(lambda found: found[1] or b"", text)
    return _ESCAPED.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), text)


def member_text(data: bytes, name: str) -> bytes | None:
    """The text of the member ``name`` of a JSON object, the last if there are several; None without one or for malformed JSON."""
    try:
        found = _members(data).get(name)
        return None if found is None else bytes(found)
    except (ValueError, RecursionError):
        pass  # msgspec is stricter about the other members than JSON parsers
    try:
        return _find(data.decode(), name)
    except (ValueError, IndexError, RecursionError):
        return None


def _find(text: str, name: str) -> bytes | None:
    found, at = None, _skip(text, 0) + 1
    while text[at := _skip(text, at)] == '"':
        key, at = _decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, at = _decode(text, start)
        if key == name:
            found = text[start:at].encode()
        at = _skip(text, at)
        at += text[at] == ","
    return found


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
