"""Tables of custom resources, from ``additionalPrinterColumns`` (upstream: apiextensions
``registry/customresource/tableconvertor``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import overload

import orjson
from msgspec import Raw

from kapi.cel.values import format_double
from kapi.machinery.ages import human_duration
from kapi.machinery.each import costly, elements
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Column, TableColumns
from kapi.resources.shared import printing
from kapi.servers.apiextensions.jsonpath import Below, JSONPathError, Path
from kapi.servers.apiextensions.outline import decode_raw

_AGE_COLUMN = {
    "name": "Age",
    "type": "date",
    "description": printing.AGE_TEXT,
    "jsonPath": ".metadata.creationTimestamp",
}


class _Columns(Sequence[Column]):
    """The columns of a version; there may be thousands, so they are made with the first table."""

    def __init__(self, raw: Raw | None) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return len(self._shown)

    @overload
    def __getitem__(self, index: int) -> Column: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Column]: ...
    def __getitem__(self, index: int | slice) -> Column | Sequence[Column]:
        return self._shown[index]

    @cached_property
    def _given(self) -> list[Object]:
        return decode_raw(self._raw) or [_AGE_COLUMN]

    @cached_property
    def _shown(self) -> list[Column]:
        return [Column("Name", "string", printing.NAME_TEXT, "name"), *map(_column, elements(self._given))]

    @cached_property
    def _readers(self) -> list[tuple[str, Path | None]]:
        return [(column.get("type", ""), _path(column.get("jsonPath", ""))) for column in elements(self._given)]

    def cells(self, obj: Object, now: float) -> list[Tree]:
        row: list[Tree] = [obj["metadata"].get("name", "")]
        below = Below(obj)
        for type_, path in costly(self._readers):
            found = path.find(obj, below) if path is not None else None
            row.append(cell(type_, found[0], now) if found else None)
        return row


def _column(given: Object) -> Column:
    path = given.get("jsonPath", "")
    return Column(
        given.get("name", ""),
        given.get("type", ""),
        given.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        given.get("format") or "",
        given.get("priority") or 0,
    )


def table(columns: Raw | None) -> TableColumns:
    """The table of a version; ``columns`` is the JSON of its additionalPrinterColumns."""
    made = _Columns(columns)
    return TableColumns(made, made.cells)


def _path(text: str) -> Path | None:
    try:
        return Path(text)
    except JSONPathError:
        return None  # a path that finds nothing


def cell(type_: str, value: object, now: float) -> Tree:
    """The cell of a value in a column of a type; null for a value that does not fit."""
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
    """A function that returns the text of a selectable field, "" when it is absent."""
    compiled = _path(path)

    def read(obj: Object) -> str:
        found = compiled.find(obj) if compiled is not None else None
        return "" if not found or found[0] is None else as_text(found[0])

    return read
