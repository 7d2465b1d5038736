"""Field sets after a schema has changed to atomic (upstream: structured-merge-diff ``typed/reconcile_schema.go``)."""

from __future__ import annotations

from kapi.machinery.each import entries
from kapi.schema.apply.fieldset import Set
from kapi.schema.apply.shape import DEDUCED, LIST, MAP, Shape
from kapi.schema.apply.typed import MEMBER


def reconcile(shape: Shape, fields: Set) -> Set:
    """The set under the current schema: a list or map that has become atomic is owned as a whole."""
    changed = _reconcile(shape, fields)
    return fields if changed is None else changed


def _reconcile(shape: Shape, fields: Set) -> Set | None:
    """The new set of children, or None when nothing changes."""
    result: Set | None = None
    for element, node in entries(fields):
        if element == "." or not node:
            continue
        if shape.first == MAP:
            child = shape.child(element[2:]) if element[0] == "f" else shape.elem
        else:
            child = shape.item if shape.is_list else None
        if child is None or child is DEDUCED:
            continue
        if child.first == MAP:
            collapse = child.map_atomic and not (child.elem is DEDUCED and not child.type_has_fields)
        elif child.first == LIST:
            collapse = child.list_atomic
        else:
            continue
        below = MEMBER if collapse else _reconcile(child, node)
        if below is not None and below is not node:
            if result is None:
                result = dict(fields)
            if collapse:
                result[element] = MEMBER
            else:
                result[element] = below
    return result
