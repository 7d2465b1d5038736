"""Prints tables of the server, or of names and ages (upstream: cli-runtime ``printers/tableprinter.go``)."""

from __future__ import annotations

import time
from typing import NamedTuple

from kapi.client.discovery import APIResource
from kapi.kubectl.printers.tabwriter import ESCAPES, TabWriter
from kapi.machinery.ages import since
from kapi.machinery.golang import value_text
from kapi.machinery.tree import Object

_BREAKS = "\f\n\r"


class PrintOptions(NamedTuple):
    no_headers: bool = False
    with_namespace: bool = False
    with_kind: bool = False
    wide: bool = False
    show_labels: bool = False
    column_labels: tuple[str, ...] = ()


class TablePrinter:
    """Headers are printed once for the same columns; ``writer`` collects the rows."""

    def __init__(self, options: PrintOptions, mapping: APIResource | None, writer: TabWriter) -> None:
        self._options, self._mapping, self._writer = options, mapping, writer
        self._headed = False
        self._columns: list[Object] = []

    def print(self, obj: Object, event: str = "") -> None:
        """``event`` is the type of a watch event, for the first column; "" for none."""
        table = obj if obj.get("kind") == "Table" else default_table(obj)
        columns = table.get("columnDefinitions") or self._columns
        self._headed = self._headed and columns == self._columns
        self._columns = columns
        rows = table.get("rows") or []
        shown = [index for index, column in enumerate(columns) if self._options.wide or not column.get("priority")]
        if not rows:
            return
        cells = [self._cells(columns, shown, row, event) for row in rows]
        lines = [[_shown(cell) for cell in line] for line in cells]
        # the first line is as wide as the longest values in bytes, before they are cut, as kubectl 1.37 makes it
        widths = [max(len(cell.encode()) for cell in column) for column in zip(*cells, strict=True)]
        if self._headed or self._options.no_headers:
            spaces = [width - len(cell.encode()) for width, cell in zip(widths, cells[0], strict=True)]
        else:
            self._headed = True
            lines.insert(0, self._headers(columns, shown, event))
            spaces = [width - len(cell) for width, cell in zip(widths, lines[0], strict=True)]
        lines[0][:-1] = [cell + " " * max(0, more) for cell, more in zip(lines[0][:-1], spaces, strict=False)]
        for line in lines:
            self._writer.row(line)

    def _headers(self, columns: list[Object], shown: list[int], event: str) -> list[str]:
        options = self._options
        cells = ["EVENT"] if event else []
        cells += ["NAMESPACE"] if options.with_namespace else []
        cells += [columns[index]["name"].upper() for index in shown]
        cells += [label.rpartition("/")[2].upper() for label in options.column_labels]
        return cells + (["LABELS"] if options.show_labels else [])

    def _cells(self, columns: list[Object], shown: list[int], row: Object, event: str) -> list[str]:
        options = self._options
        metadata = (row.get("object") or {}).get("metadata") or {}
        labels = metadata.get("labels") or {}
        cells = [event] if event else []
        cells += [metadata.get("namespace", "")] if options.with_namespace else []
        values = row.get("cells") or []
        for index in shown:
            text = _cell(values[index]) if index < len(values) else ""
            if options.with_kind and self._mapping is not None and columns[index]["name"].lower() == "name":
                kind = self._mapping.kind.lower()
                text = f"{kind}.{self._mapping.group}/{text}" if self._mapping.group else f"{kind}/{text}"
            cells.append(text)
        cells += [labels.get(label) or "" for label in options.column_labels]
        if options.show_labels:
            cells.append(",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>")
        return cells


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else value_text(value)


def _shown(text: str) -> str:
    """The cell for a value: its first line, without control characters for the terminal."""
    for index, character in enumerate(text):
        if character in _BREAKS:
            return text[:index].translate(ESCAPES) + "..."
    return text.translate(ESCAPES)


def default_table(obj: Object) -> Object:
    """A table with name and age of an object, or of the items of a list."""
    items = obj["items"] if isinstance(obj.get("items"), list) else [obj]
    rows = []
    for item in items:
        metadata = item.get("metadata") or {}
        rows.append(
            {"cells": [metadata.get("name"), since(metadata.get("creationTimestamp"), time.time())], "object": item}
        )
    return {"columnDefinitions": [{"name": "Name"}, {"name": "Age"}], "rows": rows}
