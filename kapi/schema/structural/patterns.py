"""Patterns of schemas: RE2, as Go's ``regexp``, so that matching is linear in the text."""

from __future__ import annotations

from functools import cache
from typing import Any

from kapi.machinery.memo import remember
from kapi.machinery.regexps import parse_error

MAX_PATTERN = (
    256 * 1024
)  # characters: compiling takes 0.2 ms for each 1,000, in one piece, and fails for most that are longer
_TOO_LARGE = "error parsing regexp: pattern too large - compile failed"


@cache
def _options() -> object:
    import re2  # with the first pattern

    options = re2.Options()
    options.log_errors = False
    return options


@remember(4096)
def _compiled(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN:
        return _TOO_LARGE
    import re2

    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        return parse_error(error)


def pattern_error(pattern: str) -> str:
    """Why a pattern cannot be compiled, in Go's words; "" when it can."""
    compiled = _compiled(pattern)
    return compiled if isinstance(compiled, str) else ""


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text; a broken pattern matches nothing."""
    compiled = _compiled(pattern)
    return not isinstance(compiled, str) and compiled.search(text) is not None
