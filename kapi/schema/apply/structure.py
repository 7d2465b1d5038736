"""What of a value decides which fields it has: two values of one structure have the same field set.

What clients create is mostly alike: the pods of a controller differ in what their fields hold, seldom in which they have.
A structure is found with a fraction of the work that the set takes, so the sets can be remembered by it.
"""

from __future__ import annotations

from kapi.machinery.checkpoint import steps
from kapi.machinery.tree import Object, Tree
from kapi.schema.apply.shape import Shape

_MAX_PARTS = 1000  # of one structure: who has more is seldom alike, and to look for its structure takes long
#: names, each followed by the structure below it or by the JSON type of an empty value
Structure = tuple[Tree, ...]


class TooManyParts(TypeError):
    """A structure that is not worth being remembered, as one that cannot be hashed."""


def structure(shape: Shape, value: Object) -> Structure:
    """Of a granular map.  Not hashable when a list is addressed by what is no scalar.  Raises TooManyParts."""
    return _structure(shape, value, [_MAX_PARTS])


def _structure(shape: Shape, value: Object, left: list[int]) -> Structure:
    """``left`` is how many parts it may still have."""
    left[0] -= len(value)
    if left[0] < 0:
        raise TooManyParts
    parts: list[Tree] = []
    for name, entry in steps(value.items()):
        parts.append(name)
        kind = type(entry)
        if not entry:
            parts.append(kind)
        elif kind is dict:
            child = shape.child(name)
            if child is not None and child.is_map and not child.map_atomic:
                parts.append(_structure(child, entry, left))
        elif kind is list:
            child = shape.child(name)
            if child is not None and child.is_list and not child.list_atomic:
                parts.append(_items(child, entry, left))
    return tuple(parts)


def _items(shape: Shape, items: list[Tree], left: list[int]) -> Structure:
    """Of an associative list or a set: how each item is addressed, and what is in it."""
    left[0] -= len(items)
    if left[0] < 0:
        raise TooManyParts
    keys, inner = shape.keys, shape.item
    if not keys:
        return tuple([_scalar(item) for item in steps(items)])
    parts: list[Tree] = []
    for item in steps(items):
        if type(item) is not dict:
            parts.append(type(item))
            continue
        address = [_scalar(item[key]) if key in item else None for key in steps(keys)]
        below = _structure(inner, item, left) if inner.is_map and not inner.map_atomic else None
        parts.append((*address, below))
    return tuple(parts)


def _scalar(value: object) -> Tree:
    """A value, and its type where equality ignores it: 1, 1.0 and True are different keys."""
    return value if type(value) is str else (type(value), value)
