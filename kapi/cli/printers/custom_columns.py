"""``-o custom-columns=NAME:.path,...`` and ``custom-columns-file`` (upstream: kubectl ``cmd/get/customcolumn.go``)."""

from __future__ import annotations

import re

from kapi.cli.go_values import go_text
from kapi.cli.jsonpath import JSONPathError, Template, relaxed
from kapi.cli.messages import CommandError
from kapi.cli.printers.tabwriter import TabWriter
from kapi.machinery.tree import Object


class CustomColumnsPrinter:
    """``columns``: headers and paths."""

    def __init__(self, columns: list[tuple[str, str]], no_headers: bool = False) -> None:
        self._headers = [header for header, _ in columns]
        try:
            self._paths = [Template(relaxed(path)) for _, path in columns]
        except JSONPathError as error:
            raise CommandError(str(error)) from None
        self._headed = no_headers

    @classmethod
    def from_spec(cls, spec: str, no_headers: bool = False) -> CustomColumnsPrinter:
        if not spec:
            raise CommandError("custom-columns format specified but no custom columns given")
        columns = []
        for part in spec.split(","):
            header, colon, path = part.partition(":")
            if not colon:
                raise CommandError(f"unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>")
            columns.append((header, path))
        return cls(columns, no_headers)

    @classmethod
    def from_file(cls, path: str, no_headers: bool = False) -> CustomColumnsPrinter:
        """A line of headers and a line of paths."""
        try:
            with open(path) as file:
                lines = file.read().splitlines()
        except OSError as error:
            raise CommandError(f"error reading template {path}, open {path}: {str(error.strerror).lower()}\n") from None
        if len(lines) < 2:
            raise CommandError("error: missing second line")
        headers, paths = re.split(r"\s+", lines[0].strip()), re.split(r"\s+", lines[1].strip())
        if len(headers) != len(paths):
            raise CommandError(
                f"number of headers ({len(headers)}) and field specifications ({len(paths)}) don't match"
            )
        return cls(list(zip(headers, paths, strict=True)), no_headers)

    def print(self, obj: Object) -> str:
        writer = TabWriter()
        if not self._headed:
            writer.row(self._headers)
            self._headed = True
        for item in obj["items"] if isinstance(obj.get("items"), list) else [obj]:
            writer.row([self._cell(path, item) for path in self._paths])
        return writer.flush()

    def _cell(self, path: Template, item: Object) -> str:
        try:
            found = path.find(item)
        except JSONPathError as error:
            raise CommandError(str(error)) from None
        if not found or not found[0]:
            return "<none>"
        return ",".join("<nil>" if value is None else go_text(value) for value in found[0])
