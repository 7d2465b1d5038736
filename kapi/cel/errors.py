"""Errors of expressions, with upstream's texts (upstream: cel-go ``common/error.go``).

CelError
├── CompileErrors      the expression does not parse or type-check; ``issues`` in source order
│   ├── ResultError    it does, but has another type than its place needs
│   └── ProgramError   it does, but a constant part of it has no value
└── EvaluationError    an evaluation failed; logic operators may ignore it
    └── Cancelled      a limit was exceeded; no operator ignores it
        ├── BudgetExceeded   the cost limit
        └── TimeExceeded     the caller's time limit: the evaluation may be repeated with more time
"""

from __future__ import annotations

import re
from bisect import bisect_right


class CelError(Exception):
    """The base of this package's errors."""


_NEWLINE = re.compile("\n")


class Source:
    """Expression text with line starts, to turn offsets (in code points) into positions."""

    __slots__ = ("_starts", "name", "text")

    def __init__(self, text: str, name: str = "<input>") -> None:
        self.text = text
        self.name = name
        self._starts: list[int] = []

    @property
    def starts(self) -> list[int]:
        """The offsets at which lines begin, found on first use."""
        if not self._starts:
            self._starts = [0, *(found.end() for found in _NEWLINE.finditer(self.text))]
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """(line from 1, column from 0)."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1]

    def line(self, number: int) -> str:
        start = self.starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


class Issue:
    """One error of an expression, at an offset of its source; -1 for none."""

    __slots__ = ("offset", "message")

    def __init__(self, offset: int, message: str) -> None:
        self.offset = offset
        self.message = message

    def display(self, source: Source) -> str:
        """The three lines upstream prints: error, source line, marker; the first one alone when there is no such place."""
        if self.offset < 0 or not source.text:
            return f"ERROR: {source.name}:{-1 if self.offset < 0 else 1}:0: {self.message}"
        line, column = source.position(min(self.offset, len(source.text)))
        text = source.line(line).replace("\t", " ")
        marker = "".join("．" if _wide(char) else "." for char in text[:column]) + "." * (column - len(text[:column]))
        at = text[column : column + 1]
        pointer = "＾" if at and _wide(at) else "^"
        return f"ERROR: {source.name}:{line}:{column + 1}: {self.message}\n | {text}\n | {marker}{pointer}"


def _wide(char: str) -> bool:
    return len(char.encode("utf-8", "replace")) > 1


class CompileErrors(CelError):
    """All errors of an expression; ``str()`` is upstream's text."""

    def __init__(self, source: Source, issues: list[Issue]) -> None:
        self.source = source
        self.issues = sorted(issues, key=lambda issue: issue.offset)
        super().__init__(source.text)

    @property
    def reason(self) -> str:
        """Upstream's text: the step that failed, and why."""
        return f"compilation failed: {self}"

    def __str__(self) -> str:
        shown = self.issues[:100]
        text = "\n".join(issue.display(self.source) for issue in shown)
        if len(self.issues) > len(shown):
            text += f"\n{len(self.issues) - len(shown)} more errors were truncated"
        return text


class ResultError(CompileErrors):
    """A well-typed expression has the wrong type for its place, as ``why`` says."""

    def __init__(self, source: Source, why: str) -> None:
        super().__init__(source, [])
        self.why = why

    @property
    def reason(self) -> str:
        return self.why

    def __str__(self) -> str:
        return self.why


class ProgramError(ResultError):
    """A constant part of a well-typed expression has no value."""

    @property
    def reason(self) -> str:
        return f"program instantiation failed: {self.why}"


class EvaluationError(CelError):
    """An evaluation without a value."""


class Cancelled(EvaluationError):
    """An evaluation that was stopped."""


class BudgetExceeded(Cancelled):
    """The expression exceeded its cost limit."""

    def __init__(self, message: str = "operation cancelled: actual cost limit exceeded") -> None:
        super().__init__(message)


class TimeExceeded(Cancelled):
    """The evaluation exceeded the caller's time limit."""

    def __init__(self) -> None:
        super().__init__("operation interrupted")
