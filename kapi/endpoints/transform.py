"""Makes Tables and PartialObjectMetadata from objects (upstream: ``endpoints/handlers/response.go``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

from kapi.machinery import status
from kapi.machinery.each import costly, elements
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Column, FieldText, Resource, TableColumns
from kapi.resources.previews import PREVIEWS
from kapi.resources.shared import printing
from kapi.schema.builtin import field_texts


def _created(obj: Object) -> str:
    return str(obj["metadata"].get("creationTimestamp") or "<unknown>")


#: for types without columns of their own
DEFAULT_COLUMNS = TableColumns(
    (Column("Name", "string", printing.NAME_TEXT, "name"), Column("Created At", "date", printing.AGE_TEXT)),
    lambda obj, now: [obj["metadata"].get("name", ""), _created(obj)],
)


def column_definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": description_of(column),
        "priority": column.priority,
    }


def table(
    resource: Resource,
    objects: Collection[Object],
    list_meta: Object,
    *,
    now: float,
    version: str = "v1",
    include: str = "Metadata",
    headers: bool = True,
    served: Callable[[Object], Object] | None = None,
) -> Object:
    """A ``meta.k8s.io`` Table.

    ``now``: the unix seconds at which the ages are shown.  ``include`` is includeObject: None, Metadata or Object.
    ``served``: makes the object of a row, when ``objects`` are in their storage version.  Raises BadRequest.
    """
    if include not in ("None", "Metadata", "Object", ""):
        raise status.bad_request(bad_include(include))
    columns = resource.table or DEFAULT_COLUMNS
    if columns.order is not None:
        objects = sorted(objects, key=columns.order)
    rows = [row(columns, obj, include, version, now, served) for obj in costly(objects)]
    out: Object = {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}", "metadata": list_meta}
    out["columnDefinitions"] = [column_definition(column) for column in elements(columns.columns)] if headers else None
    # a type without columns of its own has a nil slice of rows upstream
    out["rows"] = rows or (None if columns is DEFAULT_COLUMNS else [])
    return out


def bad_include(include: str) -> str:
    return (
        f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


def row(
    columns: TableColumns,
    obj: Object,
    include: str,
    version: str,
    now: float,
    served: Callable[[Object], Object] | None = None,
) -> Object:
    if columns.view is not None:
        obj = columns.view(obj)
    out: Object = {"cells": list(columns.cells(obj, now))}
    if columns.conditions is not None:
        conditions = columns.conditions(obj)
        if conditions:
            out["conditions"] = conditions
    if include in ("Metadata", ""):
        out["object"] = partial(obj, version)
    elif include == "Object":
        out["object"] = obj if served is None else served(obj)
    else:
        out["object"] = None
    return out


def partial(obj: Object, version: str = "v1", resource: Resource | None = None) -> Object:
    """PartialObjectMetadata.  ``resource``: upstream's is of the internal form, as rows of tables are."""
    if resource is not None and resource.table is not None and resource.table.view is not None:
        obj = resource.table.view(obj)
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }


def partial_list(resource: Resource, objects: Collection[Object], list_meta: Object, version: str = "v1") -> Object:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": list_meta,
        "items": [partial(obj, version, resource) for obj in costly(objects)]
        or None,  # upstream's is a nil slice when empty
    }


def description_of(column: Column) -> str:
    text = column.description
    return text if isinstance(text, str) else _texts()[text]


@functools.cache
def _texts() -> dict[FieldText, str]:
    """The texts of all columns, found together: the document that contains them is too large to be kept."""
    tables = [row.table for row in (*BUILT_IN, *PREVIEWS) if row.table is not None]
    texts = (column.description for table in tables for column in table.columns)
    return field_texts(text for text in texts if isinstance(text, FieldText))
