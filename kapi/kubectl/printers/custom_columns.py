"""``-o custom-columns=NAME:.path,...`` and ``custom-columns-file`` (upstream: kubectl ``cmd/get/customcolumn.go``)."""

from __future__ import annotations

from kapi.kubectl.jsonpath import Template, relaxed
from kapi.kubectl.messages import CommandError
from kapi.kubectl.printers.interface import Printer
from kapi.kubectl.printers.tabwriter import ESCAPES, TabWriter
from kapi.machinery.golang import value_text
from kapi.machinery.jsonpath import JSONPathError
from kapi.machinery.tree import Object

_NO_COLUMNS = "custom-columns format specified but no custom columns given"
_MISSING_LINE = (
    "invalid template, missing {} line. Expected format is one line of space separated headers, one line of space "
    "separated column specs."
)


class CustomColumnsPrinter(Printer):
    """``columns`` are pairs of header and path.  Raises CommandError."""

    def __init__(self, columns: list[tuple[str, str]], no_headers: bool = False) -> None:
        self._headers = [header for header, _ in columns]
        try:
            self._specs = [relaxed(path) for _, path in columns]
        except JSONPathError as error:
            raise CommandError(str(error)) from None
        self._has_headers = no_headers

    @classmethod
    def from_spec(cls, spec: str, no_headers: bool = False) -> CustomColumnsPrinter:
        if not spec:
            raise CommandError(_NO_COLUMNS)
        columns = []
        for part in spec.split(","):
            header, colon, path = part.partition(":")
            if not colon:
                raise CommandError(f"unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>")
            columns.append((header, path))
        return cls(columns, no_headers)

    @classmethod
    def from_file(cls, path: str) -> CustomColumnsPrinter:
        """Reads a line of headers and a line of paths.  The headers are always printed, as by kubectl."""
        if not path:
            raise CommandError(_NO_COLUMNS)
        try:
            with open(path) as file:
                lines = file.read().splitlines()
        except IsADirectoryError:
            lines = []
        except OSError as error:
            raise CommandError(f"error reading template {path}, open {path}: {str(error.strerror).lower()}\n") from None
        if len(lines) < 2:
            raise CommandError(_MISSING_LINE.format("spec" if lines else "header"))
        headers, paths = lines[0].split(), lines[1].split()
        if len(headers) != len(paths):
            raise CommandError(
                f"number of headers ({len(headers)}) and field specifications ({len(paths)}) don't match"
            )
        return cls(list(zip(headers, paths, strict=True)))

    def print(self, obj: Object) -> str:
        writer = TabWriter()
        if not self._has_headers:
            writer.row(self._headers)
            self._has_headers = True
        try:
            paths = [Template(text) for text in self._specs]
        except JSONPathError as error:
            raise CommandError(str(error), output=writer.flush()) from None
        for item in obj["items"] if isinstance(obj.get("items"), list) else [obj]:
            try:
                writer.row([self._cell(path, item) for path in paths])
            except JSONPathError as error:  # with the rows before it
                raise CommandError(str(error), output=writer.flush()) from None
        return writer.flush()

    def _cell(self, path: Template, item: Object) -> str:
        """Raises JSONPathError."""
        found = path.find(item)
        if not found or not found[0]:
            return "<none>"
        return ",".join(value_text(value) for values in found for value in values).translate(ESCAPES)
