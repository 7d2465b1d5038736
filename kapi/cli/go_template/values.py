"""Values of templates: JSON's, and what Go calls their types (upstream: ``reflect``)."""

from __future__ import annotations


class Int(int):
    """A whole number that the template has made; those of JSON are plain, and an ``int64``."""


class Missing:
    """No value at all: a key that is not there."""

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
