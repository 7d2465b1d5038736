"""JSON with Go's escapes (upstream: ``encoding/json``)."""

from __future__ import annotations

import json
import re

from kapi.machinery.golang import float_json, is_int64
from kapi.machinery.tree import Tree

#: a number that Go may write differently from Python, or a text, to skip it
_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*+"?|(?P<number>-?\d+(?:\.\d+)?e[+-]\d+|-?\d{19,}|-?\d+\.0)(?![\d.e])')
_UNUSUAL = re.compile(r"\de[+-]\d|\d{19}|\d\.0\b")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_text(value: object, indent: int | None = None, *, ordered: bool = True) -> str:
    """JSON with sorted keys unless not ``ordered``; characters that are special in HTML are escaped, as by Go."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, sort_keys=ordered, ensure_ascii=False, indent=indent, separators=separators)
    if _UNUSUAL.search(text):
        text = _NUMBER.sub(_number, text)
    for character, escape in _ESCAPES.items():
        if character in text:
            text = text.replace(character, escape)
    return text


def sorted_fields(value: Tree) -> Tree:
    """A copy whose objects have sorted fields, as untyped values have in Go."""
    if isinstance(value, dict):
        return {key: sorted_fields(value[key]) for key in sorted(value)}
    return [sorted_fields(item) for item in value] if isinstance(value, list) else value


def _number(found: re.Match[str]) -> str:
    """Go's form of a number that ``_NUMBER`` matches; outside of int64 it is a float64."""
    text = found["number"]
    if text is None:
        return found[0]
    return text if text.lstrip("-").isdigit() and is_int64(int(text)) else float_json(float(text))
