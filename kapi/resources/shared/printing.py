"""Tables: columns with their cells, and parts of cells such as lists of labels.

Upstream: ``pkg/printers/internalversion/printers.go``, apimachinery ``util/duration``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kapi.machinery.ages import since
from kapi.machinery.each import elements
from kapi.machinery.selectors import selector_text
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Column, FieldText, TableColumns
from kapi.resources.shared.selectors import is_convertible

Reader = Callable[[Object, float], Tree]  # makes a cell from the object and the unix seconds

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily "
    "intended for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
AGE_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this "
    "value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for "
    "lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)


class PrintedColumn(NamedTuple):
    column: Column
    cell: Reader


def column(
    name: str,
    cell: Reader,
    description: str | FieldText = "",
    type: str = "string",
    *,
    priority: int = 0,
    format: str = "",
) -> PrintedColumn:
    """A column and the function that makes its cells.  See ``Column`` for the types, formats and priorities.

    The description is a text, or the path of the field that it is the description of: ".spec.replicas".
    """
    return PrintedColumn(Column(name, type, description, format, priority), cell)


def value(*path: str, empty: Tree = "") -> Reader:
    """The cell of a field; ``empty`` when it is not set."""

    def read(obj: Object, now: float) -> Tree:
        node: Tree = obj
        for part in path:
            node = (node or {}).get(part)
        return empty if node is None else node

    return read


def field_column(
    name: str, path: str, *, of: str = "", empty: Tree = "", type: str = "string", priority: int = 0, format: str = ""
) -> PrintedColumn:
    """The column of a field (".spec.replicas"), with the field's description; ``of``: that in another definition."""
    parts = path[1:].split(".")
    text = FieldText(of, parts[-1]) if of else path
    return column(name, value(*parts, empty=empty), text, type, priority=priority, format=format)


def name(obj: Object, now: float) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))


def age(obj: Object, now: float) -> str:
    return since((obj.get("metadata") or {}).get("creationTimestamp"), now)


NAME = column("Name", name, NAME_TEXT, format="name")
AGE = column("Age", age, AGE_TEXT)


def labels(values: Mapping[str, str] | None, empty: str = NONE) -> str:
    """``a=b,c=d`` in the order of the keys."""
    if not values:
        return empty
    return ",".join(f"{key}={values[key]}" for key in elements(ordered(values)))


def go_label_selector(selector: Mapping[str, Tree]) -> str:
    """A LabelSelector in the form of its generated ``String``."""
    labels = "".join(
        f"{key}: {value}," for key, value in elements(ordered((selector.get("matchLabels") or {}).items()))
    )
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{term.get('key', '')},Operator:{term.get('operator', '')},"
        f"Values:[{' '.join(term.get('values') or [])}],}},"
        for term in elements(selector, "matchExpressions")
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )


def label_selector(selector: Mapping[str, Tree] | None) -> str:
    """A LabelSelector in the form of upstream's FormatLabelSelector."""
    if selector is not None and not is_convertible(selector):
        return "<error>"
    return selector_text(selector) or NONE


def joined(values: Iterable[Tree] | None, empty: str = NONE) -> str:
    text = ",".join(str(value) for value in elements(values))
    return text or empty


def of_spec(name: str, empty: str = "") -> Reader:
    """The cell of a field of the spec; ``empty`` when it is not set."""
    return lambda obj, now: (obj.get("spec") or {}).get(name) or empty


def _described(column: Column, definition: str) -> Column:
    """The column with the text of a path: that of ".spec.replicas" is in the definition of the spec."""
    if not isinstance(column.description, str) or not column.description.startswith("."):
        return column
    *parts, field = column.description[1:].split(".")
    return replace(column, description=FieldText(definition + "".join(map(str.capitalize, parts)), field))


def table(*columns: PrintedColumn, of: str = "", order: Callable[[Object], Tree] | None = None) -> TableColumns:
    """The table of a kind, whose definition is ``of``, without "io.k8s."; ``order`` sorts the rows of a list."""
    described = [_described(printed.column, of) for printed in columns]
    cells = [printed.cell for printed in columns]
    return TableColumns(described, lambda obj, now: [cell(obj, now) for cell in cells], order=order)


def without_annotation(key: str) -> Callable[[Object], Object]:
    """A view without an annotation, for types whose internal form has a field instead."""

    def view(obj: Object) -> Object:
        annotations = obj["metadata"].get("annotations") or {}
        if key not in annotations:
            return obj
        metadata = {name: value for name, value in obj["metadata"].items() if name != "annotations"}
        kept = {name: value for name, value in annotations.items() if name != key}
        return {**obj, "metadata": {**metadata, "annotations": kept} if kept else metadata}

    return view
