"""Patterns of schemas: RE2, as Go's ``regexp``, so that matching is linear in the text."""

from __future__ import annotations

from typing import Any

import re2

from kapi.machinery.memo import remember

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

#: what Go says where RE2 says something else
_GO_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
}


@remember(4096)
def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        text = error.args[0] if error.args else b""
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        word, colon, rest = text.partition(": ")
        word = _GO_WORDS.get(word, word)
        if word.endswith("at end of expression"):
            word = word.replace(" at end of expression", " at end of expression")
        return f"error parsing regexp: {word}" + (
            f": `{rest}`" if colon and word != "trailing backslash at end of expression" else ""
        )


def pattern_error(pattern: str) -> str:
    """Why a pattern cannot be compiled, in Go's words; "" when it can."""
    compiled = _compiled(pattern)
    return compiled if isinstance(compiled, str) else ""


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text; a broken pattern matches nothing."""
    compiled = _compiled(pattern)
    return not isinstance(compiled, str) and compiled.search(text) is not None
