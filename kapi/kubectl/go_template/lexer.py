"""Splits a template's text into tokens (upstream: ``text/template/parse`` lex.go)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kapi.machinery.golang import quote

LEFT, RIGHT = "{{", "}}"
_SPACES = " \t\r\n"
_COMMENT, _COMMENT_END = "/*", "*/"
KEYWORDS = frozenset(("block", "break", "continue", "define", "else", "end", "if", "range", "nil", "template", "with"))
_WORD = re.compile(r"\w*")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|0[oO][0-7_]*|0[bB][01_]*"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)
_STRINGS = {'"': ("string", "unterminated quoted string"), "'": ("char", "unterminated character constant")}


class TemplateError(ValueError):
    """An error in a template, found by parsing or executing it."""


class Token(NamedTuple):
    """``kind``: text, left, right, space, field, variable, identifier, keyword, bool, number, string, raw, char, dot, eof, a sign
    itself (``( ) | , := =``), or "sign" for any other character.  ``position`` is the offset in the text.
    """

    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        """The token in messages."""
        if self.kind == "eof":
            return "EOF"
        if self.kind in ("keyword", "dot"):
            return f"<{self.text}>"
        return quote(self.text[:10]) + "..." if len(self.text) > 10 else quote(self.text)


class Lexer:
    """``tokens`` gives the tokens of a text.  Raises TemplateError."""

    def __init__(self, text: str) -> None:
        self._text, self._position, self._parens = text, 0, 0

    def line_of(self, position: int) -> int:
        return self._text.count("\n", 0, position) + 1

    def error(self, message: str, position: int | None = None) -> TemplateError:
        line = self.line_of(self._position if position is None else position)
        return TemplateError(f"template: output:{line}: {message}")

    def tokens(self) -> Iterator[Token]:
        text = self._text
        trim = False
        while self._position < len(text):
            start = self._position
            found = text.find(LEFT, start)
            end = len(text) if found < 0 else found
            piece, offset = text[start:end], start
            if trim:
                offset += len(piece) - len(piece.lstrip(_SPACES))
                piece = piece.lstrip(_SPACES)
            if found >= 0 and self._trims_left(found):
                piece = piece.rstrip(_SPACES)
            if piece:
                yield Token("text", piece, offset)
            trim = False
            self._position = end
            if found < 0:
                break
            body = found + len(LEFT) + (2 if self._trims_left(found) else 0)
            if text.startswith(_COMMENT, body):
                trim = self._comment(body)
                continue
            yield Token("left", LEFT, found)
            self._position, self._parens = body, 0
            for token in self._action():
                yield token
                trim = token.kind == "right" and len(token.text) > len(RIGHT)
        yield Token("eof", "", len(text))

    def _trims_left(self, left: int) -> bool:
        after = self._text[left + len(LEFT) : left + len(LEFT) + 2]
        return len(after) == 2 and after[0] == "-" and after[1] in _SPACES

    def _right(self, position: int) -> str:
        """The closing delimiter at the position, with its trim marker."""
        text = self._text
        if text.startswith(RIGHT, position):
            return RIGHT
        if text[position : position + 1] in tuple(_SPACES) and text.startswith("-" + RIGHT, position + 1):
            return text[position : position + 2] + RIGHT
        return ""

    def _comment(self, start: int) -> bool:
        """Skips it; whether the text after it is trimmed."""
        end = self._text.find(_COMMENT_END, start)
        if end < 0:
            raise self.error("unclosed comment")
        right = self._right(end + len(_COMMENT_END))
        if not right:
            raise self.error("comment ends before closing delimiter")
        self._position = end + len(_COMMENT_END) + len(right)
        return len(right) > len(RIGHT)

    def _action(self) -> Iterator[Token]:
        text = self._text
        while True:
            start = self._position
            right = self._right(start)
            if right:
                if self._parens:
                    raise self.error("unclosed left paren")
                self._position += len(right)
                yield Token("right", right, start)
                return
            if start >= len(text):
                raise self.error("unclosed action")
            kind, self._position = self._one(text[start], start)
            yield Token(kind, text[start : self._position], start)

    def _one(self, character: str, start: int) -> tuple[str, int]:
        """The kind of the token at ``start`` and where it ends."""
        text = self._text
        if character in _SPACES:
            end = start + 1
            while text[end : end + 1] in tuple(_SPACES) and not self._right(end):
                end += 1
            return "space", end
        if text.startswith(":=", start):
            return ":=", start + 2
        if character == ":":
            raise self.error("expected :=")
        if character in _STRINGS:
            return self._string(character, start)
        if character == "`":
            end = text.find("`", start + 1)
            if end < 0:
                raise self.error("unterminated raw quoted string")
            return "raw", end + 1
        if character == "." and not text[start + 1 : start + 2].isdigit():
            return self._name("field", start, start + 1)
        if character == "$":
            return self._name("variable", start, start + 1)
        if character.isdigit() or character in "+-" or character == ".":
            return self._number(start)
        if character == "_" or character.isalpha():
            return self._name("identifier", start, start)
        if character == "(":
            self._parens += 1
        elif character == ")":
            self._parens -= 1
            if self._parens < 0:
                raise self.error("unexpected right paren")
        elif character not in "|,=":
            if not (character.isascii() and character.isprintable()):
                raise self.error(f"unrecognized character in action: {_code(character)}")
            return "sign", start + 1
        return character, start + 1

    def _string(self, mark: str, start: int) -> tuple[str, int]:
        kind, unterminated = _STRINGS[mark]
        end = start + 1
        while end < len(self._text) and self._text[end] not in (mark, "\n"):
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text) or self._text[end] == "\n":
            raise self.error(unterminated)
        return kind, end + 1

    def _name(self, kind: str, start: int, word: int) -> tuple[str, int]:
        match = _WORD.match(self._text, word)
        end = match.end() if match is not None else word
        name = self._text[start:end]
        after = self._text[end : end + 1]
        if kind == "field" and name == "." and self._ends_word(end, after):
            return "dot", end
        if not self._ends_word(end, after):
            raise self.error(f"bad character {_code(after)}")
        if kind == "identifier":
            kind = "keyword" if name in KEYWORDS else "bool" if name in ("true", "false") else kind
        return kind, end

    def _ends_word(self, end: int, after: str) -> bool:
        return not after or after in _SPACES + ".,|:)(" or self._text.startswith(RIGHT, end)

    def _number(self, start: int) -> tuple[str, int]:
        match = _NUMBER.match(self._text, start)
        end = match.end() if match is not None else start
        after = self._text[end : end + 1]
        if after == "_" or after.isalnum() or end == start:
            raise self.error(f"bad number syntax: {quote(self._text[start : end + 1])}")
        return "number", end


def _code(character: str) -> str:
    """``U+007D '}'``."""
    return f"U+{ord(character):04X} '{character}'"
