"""Whole values in messages, for which upstream prints its internal types or differences between two of them.

The table ``internal_types.txt`` has the fields of internal types in Go's order.
Upstream: ``util/validation/field`` ErrorBody (JSON of the value), ``k8s.io/apimachinery/pkg/util/diff`` (unified diff of the
indented JSON), ``pkg/apis/*/types.go`` for names and order, ``k8s.io/api`` for the names in JSON.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kapi.machinery.each import elements
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Tree
from kapi.schema.types import Kind, Type

_TABLE = Path(__file__).with_name("internal_types.txt")
_FIELD = re.compile(r"(@?\w+)(?::(\^?[\w$-]+))?(?:=([^>]+))?(?:>([\w{}]+))?")
_FIRST_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]")  # the part of a Go name that JSON writes in lower case
Object = Mapping[str, Tree]
_METADATA = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
_RAW = "raw"  # the type of a value that messages show as it was sent
_CONTEXT_LINES = 3  # lines around a change
_MAX_COMPARED_LINES = 1000  # lines of both values together of which the smallest change is found
_encoder = json.JSONEncoder(indent=1, ensure_ascii=False)
_FIELDS = (
    ("matchLabels", "matchExpressions"), ("key", "operator", "values"),
    ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"),
    ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"),
)  # fmt: skip


class InternalField(NamedTuple):
    """A field; ``inner`` is the type of its value: "" for a plain value, "raw" for a value that is shown as sent."""

    go_name: str  # "" for the metadata, whose fields are written inline
    name: str  # in JSON; ^name stands in the parent of the value
    zero: Tree
    inner: str  # {Type} is a map of values of this type


@functools.cache
def _paragraphs() -> Mapping[str, list[str]]:
    lines = [line for line in _TABLE.read_text().splitlines() if not line.startswith("#")]
    paragraphs = (paragraph.split() for paragraph in "\n".join(lines).replace("\n ", " ").splitlines())
    return {kind: fields for kind, *fields in paragraphs}


def is_internal(kind: str) -> bool:
    """Whether the table has a type of this name."""
    return kind in _paragraphs()


@functools.cache
def fields_of(kind: str) -> tuple[InternalField, ...]:
    """The fields of an internal type.  Raises KeyError."""
    return tuple(_field(text) for text in _paragraphs()[kind])


def _field(text: str) -> InternalField:
    if text == "@metadata":
        return InternalField("", "metadata", None, "")
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"{_TABLE.name}: {text}")
    go_name, name, zero, inner = match.groups(default="")
    default = None if inner else ""
    name = name or _FIRST_WORD.sub(lambda word: word[0].lower(), go_name, count=1)
    return InternalField(go_name, name, json.loads(zero) if zero else default, inner)


def internal(kind: str, value: Tree, parent: Object | None = None) -> Tree:
    """A value in the form of Go's internal type: every field, capitalised, in order; None stays None."""
    if value is None:
        return None
    if kind.startswith("JSONSchemaPropsOr"):
        schema, listed = (value if isinstance(value, type_) else None for type_ in (dict, list))
        value = {"schema": schema, "list": listed, "allows": value is not False}
    if isinstance(value, list):
        return [internal(kind, item) for item in elements(value)]
    shown: dict[str, Tree] = {}
    for go_name, name, zero, inner in elements(fields_of(kind)):
        if not go_name:
            metadata = value.get("metadata") or {}
            shown.update({key: plain(metadata[key]) for key in _METADATA if metadata.get(key)})
            continue
        found = (parent or {}).get(name[1:]) if name.startswith("^") else value.get(name)
        if inner == _RAW:
            shown[go_name] = zero if found is None else found
            continue
        if inner.startswith("{"):
            shown[go_name] = found and {key: internal(inner[1:-1], found[key]) for key in elements(ordered(found))}
            continue
        if not inner:
            shown[go_name] = zero if found is None else plain(found)
            continue
        if found is None and zero is not None:
            found = {}
        shown[go_name] = internal(inner, found, value) if is_internal(inner) else plain(found)
    return shown


def internal_form(type_: Type, value: object) -> Tree:
    """A value of an API type as in upstream's messages: in the internal form, where this differs."""
    while type_.elem is not None and isinstance(value, list):
        type_ = type_.elem
    if type_.kind is not Kind.STRUCT or not is_internal(type_.name) or not type_.definition.startswith("io.k8s.api."):
        return value
    items = value if isinstance(value, list) else [value]
    if any(
        not isinstance(item, dict) or not item or not item.keys() <= type_.fields.keys() for item in elements(items)
    ):
        return value  # it is in the internal form already
    return internal(type_.name, value)


def plain(value: object) -> Tree:
    """A value without an internal type: maps sorted by key, as in Go, and selectors and owners in the order of their fields."""
    if isinstance(value, list):
        return [plain(item) for item in elements(value)]
    if not isinstance(value, dict):
        return value
    fields = next((names for names in _FIELDS if value.keys() <= set(names)), None)
    return {key: plain(value[key]) for key in elements(fields or ordered(value)) if key in value}


def difference(kind: str, old: Object, new: Object) -> str:
    """The unified diff of two internal values, three lines around each change."""
    before, after = (_lines(internal(kind, value)) for value in (old, new))
    if len(before) + len(after) > _MAX_COMPARED_LINES:
        return "".join(_long_difference(before, after))
    import difflib  # imported only for errors

    lines = list(difflib.unified_diff(before, after, n=_CONTEXT_LINES))
    return "".join(lines[2:])  # without the names of the files


def _long_difference(before: list[str], after: list[str]) -> list[str]:
    """One change from the first different line to the last: finding the smallest change takes quadratic time."""
    shorter = min(len(before), len(after))
    first = next((i for i in elements(range(shorter)) if before[i] != after[i]), shorter)
    rest = shorter - first
    last = next((i for i in elements(range(rest)) if before[-1 - i] != after[-1 - i]), rest)
    start, trailing = max(0, first - _CONTEXT_LINES), min(last, _CONTEXT_LINES)
    removed, added = before[first : len(before) - last], after[first : len(after) - last]
    if not removed and not added:
        return []
    sizes = [first - start + len(lines) + trailing for lines in (removed, added)]
    head = f"@@ -{start + 1},{sizes[0]} +{start + 1},{sizes[1]} @@\n"
    context = before[len(before) - last : len(before) - last + trailing]
    return [
        head,
        *(" " + line for line in elements(before[start:first])),
        *("-" + line for line in elements(removed)),
        *("+" + line for line in elements(added)),
        *(" " + line for line in context),
    ]


def _lines(tree: object) -> list[str]:
    lines = "".join(list(elements(_encoder.iterencode(tree)))).splitlines(keepends=True)
    return [line if line.endswith("\n") else line + "\n" for line in elements(lines)]
