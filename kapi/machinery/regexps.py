"""Regular expressions of clients, on RE2 as Go's ``regexp``, so that matching takes linear time; errors are in Go's words.

A pattern of a few characters can be a program of half a million instructions: ``\\pL{400}``.  RE2 compiles it in one piece, which
takes 1.5 ms for 1,000 instructions.  So the size of a program is limited, and the total size of the cached programs.
"""

from __future__ import annotations

from typing import Any

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.memo import BoundedCache

#: characters: to compile 1,000 takes 0.2 ms, without checkpoints; most longer patterns fail anyway
MAX_PATTERN_LENGTH = 256 * 1024
_MAX_KEPT = 2048  # patterns
MAX_KEPT_INSTRUCTIONS = 4_000_000  # and characters, of all cached patterns; an instruction takes 8 to 16 bytes
_USUAL_BYTES = 1 << 20  # for a program and the memory of its matching
_TOO_LARGE = "error parsing regexp: pattern too large - compile failed"
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
    """The text of Go's error for an error of RE2."""
    text = error.args[0] if error.args else b""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    word, colon, rest = text.partition(": ")
    word = _WORDS.get(word, word)
    quoted = f": `{rest}`" if colon and word != _WORDS["trailing \\"] else ""
    return f"error parsing regexp: {word}{quoted}"


class _Programs(BoundedCache[tuple[str, int], Any]):
    """The compiled patterns, by pattern and limit; emptied when they become too many or too large."""

    def __init__(self) -> None:
        super().__init__(_MAX_KEPT)
        self.instructions = 0

    def add(self, key: tuple[str, int], value: Any) -> None:
        size = len(key[0]) + getattr(value, "programsize", 0)
        if self.instructions + size > MAX_KEPT_INSTRUCTIONS:
            self.clear()
        super().add(key, value)
        self.instructions += size

    def clear(self) -> None:
        import re2

        super().clear()
        self.instructions = 0
        re2.purge()  # the library caches 128 patterns itself


programs = _Programs()


def compiled(pattern: str, max_bytes: int = 8 << 20) -> Any:
    """A pattern as RE2's object, or the text of Go's error.  ``max_bytes`` limits the program, and thereby its time."""
    found = programs.get((pattern, max_bytes))
    if found is None:
        checkpoint()
        found = _compile(pattern, max_bytes)
        programs.add((pattern, max_bytes), found)
    return found


def _compile(pattern: str, max_bytes: int) -> Any:
    if len(pattern) > MAX_PATTERN_LENGTH:
        return _TOO_LARGE
    import re2  # imported with the first pattern

    problem = ""
    for limit in (_USUAL_BYTES, max_bytes):
        options = re2.Options()
        options.log_errors, options.max_mem = False, limit
        try:
            return re2.compile(pattern, options)
        except re2.error as error:
            problem = parse_error(error)
        except (UnicodeError, ValueError) as error:
            problem = f"error parsing regexp: {error}"
        if problem != _TOO_LARGE:
            break
    return problem


def pattern_error(pattern: str) -> str:
    """Go's error for a pattern that cannot be compiled; "" when it can."""
    found = compiled(pattern)
    return found if isinstance(found, str) else ""


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text; a broken pattern matches nothing."""
    found = compiled(pattern)
    return not isinstance(found, str) and found.search(text) is not None
