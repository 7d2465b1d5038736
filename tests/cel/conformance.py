"""Reads the cel-spec's ``simple`` conformance vectors: a small reader of protobuf's text format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<string>(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))|(?P<word>[A-Za-z0-9_.+-]+)|(?P<url>\[[^\]]*\])|(?P<op>[{}<>:\[\],;])"""
)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unquote(text: str) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        if code[:1] in b"x" and len(code) > 1:
            return bytes([int(code[1:], 16)])
        if code[:1] in b"uU" and len(code) > 1:
            return chr(int(code[1:], 16)).encode("utf-8", "surrogatepass")
        if code.isdigit():
            return bytes([int(code, 8) & 255])
        return _SIMPLE.get(code, code)

    return _ESCAPE.sub(one, text[1:-1].encode())


def _tokens(text: str) -> Iterator[tuple[str, Any]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None, text[position : position + 40]
        position = match.end()
        if match.lastgroup == "string":
            yield "string", _unquote(match.group())
        elif match.lastgroup is not None:
            yield match.lastgroup, match.group()


Message = dict[str, list[Any]]


def read(path: Path) -> Message:
    """A message: field name -> its values."""
    tokens = list(_tokens(path.read_text()))
    message, _ = _message(tokens, 0)
    return message


def _message(tokens: list[tuple[str, Any]], at: int) -> tuple[Message, int]:
    found: Message = {}
    while at < len(tokens) and tokens[at] not in (("op", "}"), ("op", ">")):
        if tokens[at][1] in (",", ";"):
            at += 1
            continue
        name = str(tokens[at][1])
        at += 1
        if tokens[at] == ("op", ":"):
            at += 1
        values = found.setdefault(name, [])
        if tokens[at][0] == "url":
            inner = tokens[at][1][1:-1]
            values.extend(part.strip().strip("'\"") for part in inner.split(",") if part.strip())
            at += 1
        elif tokens[at] in (("op", "{"), ("op", "<")):
            value, at = _message(tokens, at + 1)
            values.append(value)
            at += 1
        elif tokens[at] == ("op", "["):
            at += 1
            while tokens[at] != ("op", "]"):
                if tokens[at] in (("op", "{"), ("op", "<")):
                    value, at = _message(tokens, at + 1)
                    values.append(value)
                    at += 1
                elif tokens[at] == ("op", ","):
                    at += 1
                else:
                    values.append(tokens[at][1])
                    at += 1
            at += 1
        else:
            value = tokens[at][1]
            at += 1
            while tokens[at - 1][0] == "string" and at < len(tokens) and tokens[at][0] == "string":
                value += tokens[at][1]
                at += 1
            values.append(value)
    return found, at


def text(message: Message, field: str, default: str = "") -> str:
    value = message.get(field, [default])[-1]
    return value.decode() if isinstance(value, bytes) else str(value)
