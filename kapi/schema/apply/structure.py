"""A key for the cache of field sets: two values with the same structure have the same field set.

New objects are mostly alike: the pods of a controller differ in the values of their fields, seldom in which fields they have.
Finding a structure takes a fraction of the time of its field set.
"""

from __future__ import annotations

from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object, Tree
from kapi.schema.apply.shape import Shape

_MAX_PARTS = 1000  # of one structure: larger values are seldom alike, and their structure takes long
#: names, each followed by the structure below it or by the JSON type of an empty value
Structure = tuple[Tree, ...]


class TooManyParts(TypeError):
    """The structure is too large to be a key of the cache; a TypeError, as for one that is not hashable."""


def holds_nothing(value: Object) -> bool:
    """Whether all values of a tree are empty."""
    return all(not entry or isinstance(entry, dict) and holds_nothing(entry) for entry in value.values())


def structure(shape: Shape, value: Object) -> Structure:
    """The structure of a granular map.  It is not hashable if a list has a key that is no scalar.  Raises TooManyParts."""
    return _structure(shape, value, [_MAX_PARTS])


def _structure(shape: Shape, value: Object, left: list[int]) -> Structure:
    """``left`` has the number of parts that are still allowed."""
    left[0] -= len(value)
    if left[0] < 0:
        raise TooManyParts
    parts: list[Tree] = []
    for name, entry in entries(value):
        parts.append(name)
        kind = type(entry)
        if not entry:
            parts.append(kind)
        elif kind is dict:
            child = shape.child(name)
            if child is not None and child.is_map:
                if not child.map_atomic:
                    parts.append(_structure(child, entry, left))
                elif holds_nothing(entry):
                    parts.append(repr(entry))  # perhaps the zero value of its type, which belongs to nobody
        elif kind is list:
            child = shape.child(name)
            if child is not None and child.is_list and not child.list_atomic:
                parts.append(_items(child, entry, left))
    return tuple(parts)


def _items(shape: Shape, items: list[Tree], left: list[int]) -> Structure:
    """The structure of an associative list or a set: the key of each item, and the structure of its content."""
    left[0] -= len(items)
    if left[0] < 0:
        raise TooManyParts
    keys, inner = shape.keys, shape.item
    if not keys:
        return tuple([_scalar(item) for item in elements(items)])
    parts: list[Tree] = []
    for item in elements(items):
        if type(item) is not dict:
            parts.append(type(item))
            continue
        address = [_scalar(item[key]) if key in item else None for key in keys]
        below = _structure(inner, item, left) if inner.is_map and not inner.map_atomic else None
        parts.append((*address, below))
    return tuple(parts)


def _scalar(value: object) -> Tree:
    """A value with its type, since 1, 1.0 and True are different keys."""
    return value if type(value) is str else (type(value), value)
