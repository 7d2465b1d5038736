"""Tables of custom resources, from ``additionalPrinterColumns`` (upstream: apiextensions
``registry/customresource/tableconvertor``)."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from kapi.apiextensions.jsonpath import Find, JSONPathError, compile_path
from kapi.cel.values import format_double
from kapi.machinery.ages import human_duration
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Column, TableColumns

_NAME = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client "
    "to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and "
    "configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_AGE = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be "
    "set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 "
    "form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_AGE_COLUMN = {"name": "Age", "type": "date", "description": _AGE, "jsonPath": ".metadata.creationTimestamp"}


def table(columns: list[Object] | None) -> TableColumns:
    """The table of a version; the paths are compiled when the first row is asked for."""
    given = columns or [_AGE_COLUMN]
    shown = [Column("Name", "string", _NAME, "name")]
    for column in given:
        path = column.get("jsonPath", "")
        text = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
        shown.append(
            Column(
                column.get("name", ""),
                column.get("type", ""),
                text,
                column.get("format") or "",
                column.get("priority") or 0,
            )
        )
    readers: list[tuple[str, Find]] = []

    def cells(obj: Object, now: float) -> list[Tree]:
        if not readers:
            readers.extend((column.get("type", ""), _finder(column.get("jsonPath", ""))) for column in given)
        row: list[Tree] = [obj["metadata"].get("name", "")]
        for type_, find in readers:
            found = find(obj)
            row.append(cell(type_, found[0], now) if found else None)
        return row

    return TableColumns(tuple(shown), cells)


def _finder(path: str) -> Find:
    try:
        return compile_path(path)
    except JSONPathError:
        return lambda value: []


def cell(type_: str, value: object, now: float) -> Tree:
    """What a column of a type shows of a value; null for what does not fit."""
    if type_ == "string":
        return as_text(value)
    if value is None:
        return None
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if type_ == "date":
        return _since(value, now) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if type_ == "integer" else float(value)


def _since(text: str, now: float) -> str:
    try:
        return human_duration(now - seconds_of(text))
    except (ValueError, TypeError, IndexError):
        return "<invalid>"


def as_text(value: object) -> str:
    """A value as Go prints it, objects and lists as JSON."""
    if value is None:
        return "<nil>"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_double(value)
    if isinstance(value, (dict, list)):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return str(value)


def selectable(path: str) -> Callable[[Object], str]:
    """The text of a selectable field; "" when absent."""
    find = _finder(path)

    def read(obj: Object) -> str:
        found = find(obj)
        return "" if not found or found[0] is None else as_text(found[0])

    return read
