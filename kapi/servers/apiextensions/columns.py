"""Tables of custom resources, from ``additionalPrinterColumns`` (upstream: apiextensions
``registry/customresource/tableconvertor``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import overload

from msgspec import Raw

from kapi.machinery.ages import since
from kapi.machinery.each import costly, elements
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import is_int64, value_text
from kapi.machinery.jsonpath import Below, JSONPathError, Template
from kapi.machinery.time import time
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Column, TableColumns
from kapi.resources.shared import printing
from kapi.servers.apiextensions.outline import decode_raw

MAX_FOUND = 100_000  # values of a step: ``..`` after ``..`` finds each value many times
_NO_INT64 = -(1 << 63)  # Go's conversion of a float that is too large
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
    def _given(self) -> list[tuple[Object, Template]]:
        """The columns before the first one whose path cannot be read."""
        found = []
        for column in elements(decode_raw(self._raw) or [_AGE_COLUMN]):
            try:
                found.append((column, _template(column.get("jsonPath", ""))))
            except JSONPathError:
                break
        return found

    @cached_property
    def _shown(self) -> list[Column]:
        columns = [_column(column) for column, _ in elements(self._given)]
        return [Column("Name", "string", printing.NAME_TEXT, "name"), *columns]

    @cached_property
    def _readers(self) -> list[tuple[str, Template]]:
        return [(column.get("type", ""), template) for column, template in elements(self._given)]

    def cells(self, obj: Object, now: float) -> list[Tree]:
        row: list[Tree] = [obj["metadata"].get("name", "")]
        below = Below(obj)
        for type_, template in costly(self._readers):
            try:
                found = template.first(obj, below)
            except JSONPathError:
                found = []
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


def _template(path: str) -> Template:
    return Template(f"{{{path}}}", limit=MAX_FOUND)


def cell(type_: str, value: object, now: float) -> Tree:
    """The cell of a value in a column of a type; null for a value that does not fit."""
    if type_ == "string":
        return _text(value)
    if value is None:
        return None
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if type_ == "date":
        return _since(value, now) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if type_ != "integer":
        return float(value)
    return number if is_int64(number := int(value)) else _NO_INT64


def _since(text: str, now: float) -> str:
    try:
        return since(text if text not in ("", "null") and time(text) else None, now)
    except ValueError:
        return "<invalid>"


def _text(value: object) -> str:
    """A value as Go prints it, objects and lists as JSON."""
    if value is None:
        return "<no value>"
    return json_text(value) if isinstance(value, dict | list) else value_text(value)


def selectable(path: str) -> Callable[[Object], str]:
    """A function that returns the text of a selectable field, "" when it is absent."""
    try:
        template = _template(path)
    except JSONPathError:
        return lambda obj: ""

    def read(obj: Object) -> str:
        try:
            found = template.first(obj)
        except JSONPathError:
            return ""
        return "" if not found or found[0] is None else value_text(found[0])

    return read
