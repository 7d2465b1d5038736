"""Errors of regular expressions in the words of Go's ``regexp``, translated from RE2's."""

from __future__ import annotations

_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


def parse_error(error: Exception) -> str:
    """The text of Go's error for RE2's."""
    text = error.args[0] if error.args else b""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    word, colon, rest = text.partition(": ")
    word = _WORDS.get(word, word)
    quoted = f": `{rest}`" if colon and word != _WORDS["trailing \\"] else ""
    return f"error parsing regexp: {word}{quoted}"
