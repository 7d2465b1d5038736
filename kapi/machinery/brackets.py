"""Scans expressions with quoted strings, such as JSONPath, for the brackets outside of quotes."""

from __future__ import annotations

import re

from kapi.machinery.each import elements

_QUOTED_OR_BRACKET = re.compile(r"""'(?:[^'\\]|\\.)*+'?|"(?:[^"\\]|\\.)*+"?|[\[\]]""", re.DOTALL)


def closing_bracket(text: str, opening: int) -> int:
    """The index of the bracket that closes the one at ``opening``, or -1.  Brackets in quotes do not count."""
    depth = 0
    for match in elements(_QUOTED_OR_BRACKET.finditer(text, opening)):
        if match[0] == "[":
            depth += 1
        elif match[0] == "]":
            depth -= 1
            if not depth:
                return match.start()
    return -1
