"""Strings (upstream: cel-go ``ext/strings.go``, version 2: no ``reverse``), find and findAll (``cel/library/regex.go``).

RE2 takes linear time.
"""

from __future__ import annotations

from typing import Any

from kapi.cel.errors import EvaluationError
from kapi.cel.functions import declare as d
from kapi.cel.library.formatting import formatted
from kapi.cel.standard import compile_pattern
from kapi.cel.types import Value
from kapi.machinery.checkpoint import steps
from kapi.machinery.each import elements

_TRIMMED = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501
_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
_CHARACTERS_PER_CHECKPOINT = 400  # of a text


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


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    if part and offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    return text.find(part, min(offset, len(text))) if part else offset


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if not part:
        return offset
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def join(parts: Value, separator: str = "") -> str:
    for part in elements(parts):
        if not isinstance(part, str):
            raise EvaluationError(f"join: invalid input: {part}")
    return separator.join(parts)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if not separator:
        if limit < 0 or limit >= len(text):
            return list(text)
        return [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise EvaluationError(f"index out of range: {start}")
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for bound in (start, end):
        if not 0 <= bound <= len(text):
            raise EvaluationError(f"index out of range: {bound}")
    return text[start:end]


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count if count >= 0 else -1)


def quote(text: str) -> str:
    body = "".join(_QUOTED.get(char, char) for char in steps(text, _CHARACTERS_PER_CHECKPOINT))
    return '"' + body.encode("utf-8", "replace").decode() + '"'


STRINGS = [
    d("charAt", "string_char_at_int", "string.(int) string", char_at),
    d("indexOf", "string_index_of_string", "string.(string) int", index_of),
    d("indexOf", "string_index_of_string_int", "string.(string, int) int", index_of),
    d("lastIndexOf", "string_last_index_of_string", "string.(string) int", last_index_of),
    d("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) int", last_index_of),
    d("join", "list_join", "list(string).() string", join),
    d("join", "list_join_string", "list(string).(string) string", join),
    d("lowerAscii", "string_lower_ascii", "string.() string", lambda text: text.translate(_LOWER)),
    d("upperAscii", "string_upper_ascii", "string.() string", lambda text: text.translate(_UPPER)),
    d("replace", "string_replace_string_string", "string.(string, string) string", replace),
    d("replace", "string_replace_string_string_int", "string.(string, string, int) string", replace),
    d("split", "string_split_string", "string.(string) list(string)", split),
    d("split", "string_split_string_int", "string.(string, int) list(string)", split),
    d("substring", "string_substring_int", "string.(int) string", substring),
    d("substring", "string_substring_int_int", "string.(int, int) string", substring),
    d("trim", "string_trim", "string.() string", lambda text: text.strip(_TRIMMED)),
    d("format", "string_format", "string.(list(dyn)) string", formatted),
    d("strings.quote", "strings_quote", "(string) string", quote),
]
