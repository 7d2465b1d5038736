"""Paths in the ``fieldPath`` of a rule (upstream: apiextensions ``schema/cel/validation.go``)."""

from __future__ import annotations

import re

from kapi.machinery.each import elements
from kapi.machinery.field import Path
from kapi.schema.structural.structure import Schema, additional


class FieldPathError(ValueError):
    """A field path that the schema does not have."""


#: text in quotes ends before the first quote without a backslash before it, or at the end
_PART = re.compile(r"'.*?(?<!\\)'|'.*|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)|[^\\]++|\\", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def field_path(text: str, schema: Schema, *, arrays: bool = True) -> tuple[Path, Schema]:
    """(path, schema at it) of a text like ``.a.b['c']``.  Raises FieldPathError with upstream's text."""
    path = Path("")
    parts = iter(elements(_PART.finditer(text)))

    def take() -> str:
        for part in parts:
            return part[0]
        raise FieldPathError("unexpected end of JSON path")

    for part in parts:
        token = part[0]
        if token == ".":
            name = take()
        elif token == "[":
            if not arrays:
                raise FieldPathError("array notation is not allowed")
            quoted = take()
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {quoted}")
            found = list(elements(_ESCAPED.finditer(quoted, 1, len(quoted) - 1)))
            wrong = [one[0] for one in found if one[1] not in (None, "\n", *_ESCAPES)]
            if wrong:
                raise FieldPathError(f"invalid string literal: invalid escape char {wrong[-1]}")
            name = "".join(_ESCAPES.get(one[1], one[0]) for one in found)
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
        properties = schema.get("properties")
        if properties:
            path = path.child(name)
            if name not in properties:
                raise FieldPathError("does not refer to a valid field")
            schema = properties[name]
        elif schema.get("additionalProperties") is not None:
            path = path.key(name)
            schema = additional(schema) or {}
        else:
            raise FieldPathError("does not refer to a valid field")
        if token == "[":
            closing = take()
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
    return path, schema
