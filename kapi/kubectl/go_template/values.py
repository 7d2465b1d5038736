"""The types of values in templates, with their Go names (upstream: ``reflect``)."""

from __future__ import annotations


class Int(int):
    """An ``int`` of Go, made by the template; integers of JSON are Python's ``int``, and ``int64`` in Go."""


class Missing:
    """The value of a missing key."""

    def __bool__(self) -> bool:
        return False


MISSING = Missing()


def type_name(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case Int():
            return "int"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
    return "<nil>"


def absent(value: object) -> bool:
    return value is None or value is MISSING
