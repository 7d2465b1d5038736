"""Square brackets in expressions that have quoted texts, as JSONPath's."""

from __future__ import annotations


def closing_bracket(text: str, opening: int) -> int:
    """Where the bracket at ``opening`` is closed; -1 when it is not.  Those in quotes do not count."""
    depth, quote, position = 0, "", opening
    while position < len(text):
        char = text[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return position
        position += 1
    return -1
