"""The language of describers: parts that print lines of an object's fields (upstream: kubectl ``describe.go`` PrefixWriter).

A describer is a sequence of parts.  ``row("Priority", "spec.priority")`` prints ``Priority:`` and the field at this path; without
a value it prints nothing, or the text in ``missing``.  ``block``, ``each`` and ``table`` print nested or repeated fields.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from kapi.kubectl.printers.tabwriter import ESCAPES, TabWriter
from kapi.machinery.ages import human_duration
from kapi.machinery.golang import value_text
from kapi.machinery.selectors import selector_text
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object, Tree, dig

NONE, UNSET = "<none>", "<unset>"
MAX_ANNOTATION = 140  # characters of a line
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_EMPTY: tuple[object, ...] = (None, "", [], {})


class Lines:
    """Collects text; columns end with tabs.  ``prefix`` stands before each piece, as kubectl's nested writers do."""

    def __init__(self, prefix: str = "", inside: Lines | None = None) -> None:
        self._prefix = prefix
        self._pieces: list[str] = inside._pieces if inside is not None else []

    def put(self, text: str, level: int = 0) -> None:
        self._pieces.append(self._prefix + "  " * level + text.translate(ESCAPES))

    def nested(self, level: int) -> Lines:
        return Lines(self._prefix + "  " * level, self)

    def multiline(self, title: str, lines: Iterable[str], level: int = 0) -> None:
        """A title, and one line for each text in the column beside it."""
        self.put(f"{title}:\t", level)
        first = True
        for line in lines:
            if not first:
                self.put("")
                self.put("\t")
            self.put(f"{line}\n")
            first = False
        if first:
            self.put(f"{NONE}\n")

    def labels(self, title: str, labels: Mapping[str, str] | None) -> None:
        self.multiline(title, (f"{key}={value}" for key, value in sorted((labels or {}).items())))

    def annotations(self, title: str, annotations: Mapping[str, str] | None) -> None:
        """Annotations; long values, and values of several lines, begin on a new line."""
        self.put(f"{title}:\t")
        shown = [(key, value) for key, value in sorted((annotations or {}).items()) if key != _LAST_APPLIED]
        if not shown:
            self.put(f"{NONE}\n")
        for number, (key, given) in enumerate(shown):
            if number:
                self.put("\t")
            value = given.removesuffix("\n")
            if len(value.encode()) + len(key) + 2 <= MAX_ANNOTATION and "\n" not in value:
                self.put(f"{key}: {value}\n")
                continue
            self.put(f"{key}:\n")
            for line in value.split("\n"):
                self.put(f"\t  {shorten(line, MAX_ANNOTATION - 2)}\n")

    def table(self, headers: Sequence[str], rows: Iterable[str], level: int, rules: Sequence[str] = ()) -> None:
        """Column titles, a rule below each (``rules`` where they are not as long as the titles), and rows with tabs."""
        self.put("\t".join(headers) + "\n", level)
        self.put("\t".join(rules or ["-" * len(header) for header in headers]) + "\n", level)
        for row in rows:
            self.put(f"{row}\n", level)

    def tabbed(self) -> str:
        """All lines, with the tabs between their columns."""
        return "".join(self._pieces)

    def text(self) -> str:
        """All lines, with aligned columns."""
        writer = TabWriter(0, 2, remember=False)
        writer.text(self.tabbed())
        return writer.flush()[:-1]  # the line after the last line end is empty


Part = Callable[[Lines, Object], None]
Show = Callable[[Tree], str]


def at(obj: Tree, path: str) -> Tree:
    """The value at a path such as ``spec.nodeName``; None without one, the object itself for ""."""
    return dig(obj, *path.split(".")) if path else obj


def row(title: str, path: str, missing: str | None = None, show: Show = value_text, level: int = 0) -> Part:
    """``Title:  value``; without a value ``missing``, and no line when that is None."""

    def part(out: Lines, obj: Object) -> None:
        value = at(obj, path)
        text = missing if value in _EMPTY else show(value)
        if text is not None:
            out.put(f"{title}:\t{text}\n", level)

    return part


def line(make: Callable[[Object], str | None], level: int = 0) -> Part:
    """A line of several fields; none when the function returns None."""

    def part(out: Lines, obj: Object) -> None:
        text = make(obj)
        if text is not None:
            out.put(f"{text}\n", level)

    return part


def labels(title: str, path: str) -> Part:
    return lambda out, obj: out.labels(title, at(obj, path))


def notes(title: str, path: str) -> Part:
    return lambda out, obj: out.annotations(title, at(obj, path))


def text(words: str, level: int = 0) -> Part:
    return lambda out, obj: out.put(f"{words}\n", level)


def block(title: str, path: str, *parts: Part, level: int = 0) -> Part:
    """A title, and the parts for the value at the path; nothing without a value."""

    def part(out: Lines, obj: Object) -> None:
        value = at(obj, path)
        if value not in _EMPTY:
            out.put(f"{title}:\n", level)
            for inner in parts:
                inner(out, value)

    return part


def each(path: str, *parts: Part) -> Part:
    """The parts for each item of a list."""

    def part(out: Lines, obj: Object) -> None:
        for item in at(obj, path) or ():
            for inner in parts:
                inner(out, item)

    return part


def table(
    path: str, columns: str, cells: str, title: str = "", level: int = 1, rules: str = "", always: bool = False
) -> Part:
    """A table of a list's items.  ``cells`` are paths, with ``@`` before a time and ``_`` after a cell that ends with a blank;
    ``always``: with its title also when the list is empty."""
    paths = [(cell.strip("@_"), cell.startswith("@"), " " if cell.endswith("_") else "") for cell in cells.split()]

    def cell(item: Object, path: str, is_time: bool, end: str) -> str:
        value = at(item, path)
        return (rfc1123(value) if is_time else "" if value is None else value_text(value)) + end

    def part(out: Lines, obj: Object) -> None:
        items = at(obj, path) or []
        if items or always:
            if title:
                out.put(f"{title}:\n")
            rows = ["\t".join(cell(item, *of) for of in paths) for item in items]
            out.table(columns.split("|"), rows, level, rules.split("|") if rules else ())

    return part


# -- how values are shown -----------------------------------------------------------------------------------------------


def rfc1123(value: str | None) -> str:
    """A time in the local zone, as Go's RFC1123Z; the year 1 without a time."""
    if not value:
        return "Mon, 01 Jan 0001 00:00:00 +0000"
    return datetime.datetime.fromisoformat(value).astimezone().strftime("%a, %d %b %Y %H:%M:%S %z")


def age(value: str | None) -> str:
    """How long ago a time is."""
    return human_duration(time.time() - seconds_of(value)) if value else "<unknown>"


def joined(separator: str) -> Show:
    return lambda values: separator.join(map(value_text, values))


def seconds(value: int) -> str:
    return f"{value}s"


def python_bool(value: bool) -> str:
    return "True" if value else "False"


def map_text(values: Mapping[str, str] | None) -> str:
    """Labels in one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def selector(value: Tree) -> str:
    """A label selector in one line."""
    return selector_text(value) or NONE


def shorten(value: str, limit: int) -> str:
    """The text, shortened to a number of bytes, as in kubectl."""
    data = value.encode()
    return value if len(data) <= limit else data[:limit].decode("utf-8", "replace") + "..."


NAME = row("Name", "metadata.name", "")
NAMESPACE = row("Namespace", "metadata.namespace", "")
LABELS = labels("Labels", "metadata.labels")
ANNOTATIONS = notes("Annotations", "metadata.annotations")
HEAD, CLUSTER_HEAD = (NAME, NAMESPACE, LABELS, ANNOTATIONS), (NAME, LABELS, ANNOTATIONS)  # of kinds without a namespace
CREATED = row("CreationTimestamp", "metadata.creationTimestamp", "", rfc1123)
