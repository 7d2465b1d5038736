"""Expressions that have quoted texts, as JSONPath's: what is outside of these, and square brackets."""

from __future__ import annotations

from collections.abc import Iterator


def outside_quotes(text: str, start: int = 0, error: Exception | None = None) -> Iterator[tuple[int, str]]:
    """The characters from ``start`` on that are in no quoted text, with their places; quotes are left out themselves.

    Raises ``error`` when a quoted text has no end.
    """
    quote, position = "", start
    while position < len(text):
        char = text[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        else:
            yield position, char
        position += 1
    if quote and error is not None:
        raise error


def closing_bracket(text: str, opening: int) -> int:
    """Where the bracket at ``opening`` is closed; -1 when it is not.  Those in quotes do not count."""
    depth = 0
    for position, char in outside_quotes(text, opening):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return position
    return -1
