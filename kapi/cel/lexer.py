"""Tokens of an expression (upstream: cel-spec ``langdef.md``, section Syntax)."""

from __future__ import annotations

import re
from typing import NamedTuple

from kapi.cel.arithmetic import INT_MAX, UINT_MAX, Uint
from kapi.cel.errors import Issue
from kapi.cel.types import Value
from kapi.machinery.checkpoint import checkpoint

_TOKENS_PER_CHECKPOINT = 64


class Token(NamedTuple):
    """``kind``: ident, escaped, int, uint, float, string, bytes, op or eof; ``text`` is the source."""

    kind: str
    text: str
    offset: int
    value: Value = None


_HEX = "[0-9a-fA-F]"
_ESCAPED = rf"\\(?:[abfnrtv\"'\\?`]|[xX]{_HEX}{{2}}|u{_HEX}{{4}}|U{_HEX}{{8}}|[0-3][0-7]{{2}})"
_TOKEN = re.compile(
    rf"""
    (?P<space>[\t\ \r\n\f]+|//[^\n]*)
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<int>0x[0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
  | (?P<quoted>(?P<bytes>[bB])?(?P<raw>[rR])?(?(raw)
      (?: \"\"\"(?s:.)*?\"\"\" | '''(?s:.)*?''' | "[^"\n\r]*" | '[^'\n\r]*')
    | (?: \"\"\"(?:{_ESCAPED}|[^\\])*?\"\"\" | '''(?:{_ESCAPED}|[^\\])*?'''
      | "(?:{_ESCAPED}|[^\\"\n\r])*" | '(?:{_ESCAPED}|[^\\'\n\r])*')))
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<escaped>`[A-Za-z0-9_.\-/ ]+`)
  | (?P<op>==|!=|<=|>=|&&|\|\||[-+*/%!<>()\[\]{{}}.,?:])
    """,
    re.VERBOSE,
)
#: characters that may begin a token but are none
_CUT_ESCAPE = rf"\\(?:[xX]{_HEX}?|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|[0-3][0-7]?)?"
_CUT = re.compile(
    rf"""[&|=]|`[A-Za-z0-9_.\-/ ]*|"(?:{_ESCAPED}|[^\\"\n\r])*(?:{_CUT_ESCAPE})?|'(?:{_ESCAPED}|[^\\'\n\r])*(?:{_CUT_ESCAPE})?"""
)

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|X[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIMPLE.update({char: char for char in "\\?\"'`"})


class LexError(Exception):
    """A malformed literal."""


def _unescape(body: str, is_bytes: bool) -> str | bytes:
    out: list[str] = []
    raw = bytearray()

    def emit(text: str) -> None:
        if is_bytes:
            raw.extend(text.encode("utf-8", "surrogatepass"))
        else:
            out.append(text)

    position = 0
    while True:
        slash = body.find("\\", position)
        if slash < 0:
            emit(body[position:])
            break
        emit(body[position:slash])
        match = _ESCAPE.match(body, slash)
        if match is None:
            raise LexError("unable to unescape string")
        code = match.group(1)
        if code in _SIMPLE:
            emit(_SIMPLE[code])
        elif len(code) == 1:
            raise LexError("unable to unescape string")
        else:
            number = int(code[1:], 16) if code[0] in "xXuU" else int(code, 8)
            if is_bytes:
                if code[0] in "uU":
                    raise LexError("unable to unescape string")
                raw.append(number)
            else:
                if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                    raise LexError("invalid unicode code point")
                out.append(chr(number))
        position = match.end()
    return bytes(raw) if is_bytes else "".join(out)


def _skip(text: str, position: int, issues: list[Issue]) -> int:
    """The end of invalid text: ANTLR drops it with the character that does not fit."""
    found = _CUT.match(text, position)
    end = (found.end() if found else position) + 1
    issues.append(Issue(position, f"Syntax error: token recognition error at: '{text[position:end]}'"))
    return end


def tokenize(text: str, issues: list[Issue]) -> list[Token]:
    """The tokens, ended by ``eof``; unreadable characters become issues and are skipped."""
    tokens: list[Token] = []
    position, length = 0, len(text)
    while position < length:
        if not len(tokens) % _TOKENS_PER_CHECKPOINT:
            checkpoint()
        match = _TOKEN.match(text, position)
        if match is None:
            position = _skip(text, position, issues)
            continue
        kind = match.lastgroup or ""
        source = match.group()
        if kind == "quoted":
            is_bytes, is_raw = match["bytes"] is not None, match["raw"] is not None
            body = source[is_bytes + is_raw :]
            if len(body) >= 6 and body[:3] == body[0] * 3:
                body = body[3:-3].replace("\r\n", "\n").replace("\r", "\n")
            else:
                body = body[1:-1]
            value: Value
            try:
                if is_raw or "\\" not in body:
                    value = body.encode("utf-8", "surrogatepass") if is_bytes else body
                else:
                    value = _unescape(body, is_bytes)
            except LexError as error:
                issues.append(Issue(position, str(error)))
                value = b"" if is_bytes else ""
            tokens.append(Token("bytes" if is_bytes else "string", source, position, value))
        elif kind == "ident":
            tokens.append(Token("ident", source, position))
        elif kind == "op":
            tokens.append(Token("op", source, position))
        elif kind == "escaped":
            tokens.append(Token("escaped", source, position, source[1:-1]))
        elif kind == "int":
            tokens.append(_integer(source, position, issues))
        elif kind == "float":
            tokens.append(Token("float", source, position, float(source)))
        position = match.end()
    tokens.append(Token("eof", "<EOF>", length))
    return tokens


def _integer(source: str, position: int, issues: list[Issue]) -> Token:
    unsigned = source[-1] in "uU"
    digits = source[:-1] if unsigned else source
    if len(digits) > 40:
        number = UINT_MAX + 2
    else:
        number = int(digits, 16) if digits.startswith("0x") else int(digits)
    if unsigned:
        if number > UINT_MAX:
            issues.append(Issue(position, "invalid uint literal"))
            number = 0
        return Token("uint", source, position, Uint(number))
    if number > INT_MAX + 1:  # 2**63 is accepted here, since a minus sign may precede it
        issues.append(Issue(position, "invalid int literal"))
        number = 0
    return Token("int", source, position, number)
