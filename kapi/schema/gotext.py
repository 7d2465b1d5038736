"""JSON values as Go's ``fmt`` prints them: some messages of the API quote values in that form (``map[a:1 b:x]``)."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.field import quote
from kapi.machinery.numbers import float_text
from kapi.machinery.sorting import ordered

_INT64 = 1 << 63  # larger numbers are float64 in Go


def text(value: object) -> str:
    """A JSON tree as ``%v`` shows it: maps with sorted keys, lists without commas, null as ``<nil>``."""
    if value is None:
        return "<nil>"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float) or isinstance(value, int) and not -_INT64 <= value < _INT64:
        return float_text(float(value))
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{text(value[key])}" for key in elements(ordered(value))) + "]"
    if isinstance(value, list):
        return "[" + " ".join(text(item) for item in elements(value)) + "]"
    return str(value)


def type_name(value: object) -> str:
    """The Go type a decoded JSON value has: ``map[string]interface {}``, ``string``, ``int64`` ..."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return "int64"
    if isinstance(value, (int, float)):
        return "float64"
    if isinstance(value, dict):
        return "map[string]interface {}"
    return "[]interface {}"


__all__ = ["quote", "text", "type_name"]
