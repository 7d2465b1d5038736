"""The fields in which two objects of one type differ (upstream: structured-merge-diff ``typed/compare.go``)."""

from __future__ import annotations

from operator import eq

from kapi.machinery import checkpoint
from kapi.machinery.each import entries
from kapi.machinery.tree import Object, Tree, equal
from kapi.schema.apply import fieldset
from kapi.schema.apply.fieldset import Set
from kapi.schema.apply.shape import LIST, MAP, Shape
from kapi.schema.apply.typed import ABSENT, MEMBER, items_by_element

_CONTAINERS = (dict, list)


class Comparison:
    """The changes from one value to another: three disjoint sets of paths."""

    __slots__ = ("removed", "modified", "added")

    def __init__(self, removed: Set, modified: Set, added: Set) -> None:
        self.removed = removed
        self.modified = modified
        self.added = added

    @property
    def changed(self) -> Set:
        """The paths that the new value added or modified."""
        return fieldset.union(self.modified, self.added)

    def without(self, reset: Set) -> Comparison:
        """The comparison without the fields of a set and everything below them."""
        if not reset:
            return self
        return Comparison(
            fieldset.difference(self.removed, reset, recursive=True),
            fieldset.difference(self.modified, reset, recursive=True),
            fieldset.difference(self.added, reset, recursive=True),
        )


def compare(shape: Shape, old: object, new: object) -> Comparison:
    """The difference between two values of one type, either of which may be null."""
    result = Comparison({}, {}, {})
    _compare(shape, old, new, result)
    return result


def _compare(shape: Shape, old: object, new: object, out: Comparison) -> bool:
    """Adds the differences below two values to ``out``; returns True when the value itself is a modified leaf."""
    form, new_form = shape.form(old), shape.form(new)
    modified = _compare_as(shape, form, old, new, out)
    if new_form != form:
        modified = _compare_as(shape, new_form, old, new, out) or modified
    return modified


def _compare_as(shape: Shape, form: int, old: object, new: object, out: Comparison) -> bool:
    if form == MAP and not shape.map_atomic:
        before = old if isinstance(old, dict) else None
        after = new if isinstance(new, dict) else None
        if before or after:
            _compare_maps(shape, before or {}, after or {}, out)
            return False
    elif form == LIST and not shape.list_atomic:
        first = old if isinstance(old, list) else None
        second = new if isinstance(new, list) else None
        if first or second:
            _compare_lists(shape, first or [], second or [], out)
            return False
    return not equal(old, new)


def _compare_maps(shape: Shape, old: Object, new: Object, out: Comparison) -> None:
    same = eq if checkpoint.running is None else equal
    for name, after in entries(new):
        before = old.get(name, ABSENT)
        if before is ABSENT:
            child = shape.child(name)
            if child is not None:
                out.added["f:" + name] = _whole(child, after) if isinstance(after, _CONTAINERS) else MEMBER
        elif before is not after and not same(before, after):
            child = shape.child(name)
            if child is not None:
                _descend(child, "f:" + name, before, after, out)
    if old.keys() <= new.keys():
        return
    for name, before in entries(old):
        if name not in new:
            child = shape.child(name)
            if child is not None:
                out.removed["f:" + name] = _whole(child, before) if isinstance(before, _CONTAINERS) else MEMBER


def _descend(shape: Shape, element: str, old: object, new: object, out: Comparison) -> None:
    """Adds the differences of two unequal values under ``element``."""
    if not isinstance(old, _CONTAINERS) and not isinstance(new, _CONTAINERS):
        out.modified[element] = MEMBER  # a leaf, whatever its shape
        return
    below = Comparison({}, {}, {})
    modified = False
    if type(old) is dict and type(new) is dict and shape.is_map and not shape.map_atomic:
        _compare_maps(shape, old, new, below)
    else:
        modified = _compare(shape, old, new, below)
    if modified or below.modified:
        out.modified[element] = {".": MEMBER, **below.modified} if modified and below.modified else below.modified
    if below.removed:
        out.removed[element] = below.removed
    if below.added:
        out.added[element] = below.added


def _compare_lists(shape: Shape, old: list[Tree], new: list[Tree], out: Comparison) -> None:
    before, after = items_by_element(shape, old), items_by_element(shape, new)
    child = shape.item
    same = eq if checkpoint.running is None else equal
    for element, items in entries(before):
        others = after.get(element, ())
        if len(items) == 1 and len(others) == 1:
            item, other = items[0], others[0]
            if not same(item, other):
                _descend(child, element, item, other, out)
        elif len(items) > 1 and len(others) > 1:
            if not same(items, others):
                out.modified[element] = MEMBER
        elif len(items) > 1:
            out.removed[element] = MEMBER
            if others:
                out.added[element] = _item(child, others)
        else:
            out.removed[element] = _item(child, items)
            if others:
                out.added[element] = MEMBER
    for element, items in entries(after):
        if element not in before:
            out.added[element] = _item(child, items)


def _item(shape: Shape, items: list[Tree]) -> Set:
    """The set node of the items with one path element; of several only the element itself."""
    return _whole(shape, items[0]) if len(items) == 1 else MEMBER


def _whole(shape: Shape, value: object) -> Set:
    """The set node of a value that only one side has: every path in it, containers included."""
    form = shape.form(value)
    if form == MAP and not shape.map_atomic and value and isinstance(value, dict):
        node: Set = {".": MEMBER}
        for name, entry in entries(value):
            child = shape.child(name)
            if child is not None:
                node["f:" + name] = _whole(child, entry) if isinstance(entry, _CONTAINERS) else MEMBER
        return node
    if form == LIST and not shape.list_atomic and value and isinstance(value, list):
        node = {".": MEMBER}
        for element, items in entries(items_by_element(shape, value)):
            node[element] = _item(shape.item, items)
        return node
    return MEMBER
