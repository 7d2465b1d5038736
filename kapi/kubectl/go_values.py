"""Formats values as Go does: ``%v``, and JSON with Go's escapes (upstream: ``fmt``, ``encoding/json``)."""

from __future__ import annotations

import json

from kapi.machinery.numbers import float_text

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def go_text(value: object) -> str:
    """``%v``."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return float_text(value)
        case dict():
            return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(go_text(one) for one in value) + "]"
    return str(value)


def go_type(value: object) -> str:
    """The Go type of a value of an unstructured object."""
    match value:
        case dict():
            return "map[string]interface {}"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case list():
            return "[]interface {}"
    return "string"


def json_text(value: object, indent: int | None = None) -> str:
    """JSON with sorted keys; characters that are special in HTML are escaped, as by Go."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=indent, separators=separators)
    for character, escape in _ESCAPES.items():
        if character in text:
            text = text.replace(character, escape)
    return text
