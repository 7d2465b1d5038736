"""find and findAll; RE2 takes linear time (upstream: apiserver ``cel/library/regex.go``)."""

from __future__ import annotations

from typing import Any

from kapi.cel.errors import EvaluationError
from kapi.cel.functions import declare as d
from kapi.cel.standard import compile_pattern
from kapi.machinery.checkpoint import steps


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return found.group(0) if found is not None else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    compiled = _compiled(pattern)
    if limit == 0:
        return []
    found: list[str] = []
    for match in steps(compiled.finditer(text), 16):
        found.append(match.group(0))
        if len(found) == limit:
            break
    return found


REGEX = [
    d("find", "string_find_string", "string.(string) string", find),
    d("findAll", "string_find_all_string", "string.(string) list(string)", find_all),
    d("findAll", "string_find_all_string_int", "string.(string, int) list(string)", find_all),
]
