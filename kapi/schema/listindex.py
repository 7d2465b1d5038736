"""An index of the items of a list in a strategic merge patch, by the value of their merge key.

It finds the same items as a walk over the list that compares with Python's ``==``.
"""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.tree import Object, Tree


class PatchError(ValueError):
    """A patch that does not apply; upstream answers 500 with its text."""


def mark(value: object) -> Tree:
    """A hashable key of a JSON value: two keys are equal exactly if the values are (1, 1.0 and true are equal)."""
    if isinstance(value, dict):
        return frozenset((name, mark(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(map(mark, value))
    return value


def typed_mark(value: object) -> Tree:
    """A hashable key of a merge key's value, with its type: 1 and true are different."""
    return type(value), mark(value)


class Index:
    """The first item of a list for each value of its merge key."""

    __slots__ = ("_items", "_merge_key", "_places", "_stop")

    def __init__(self, items: list[Tree], merge_key: str) -> None:
        self._items = items
        self._merge_key = merge_key
        self._places: dict[Tree, int] = {}
        self._stop = -1  # index of the first item that is no map, where a search ends; -1: none
        for i, item in enumerate(elements(items)):
            if not isinstance(item, dict):
                self._stop = i
                break
            if merge_key in item:
                self._places.setdefault(typed_mark(item[merge_key]), i)

    def find(self, value: object) -> int:
        """The item's index, or -1.  Raises PatchError when an item before it is no map."""
        at = self._places.get(typed_mark(value), -1)
        if at < 0 <= self._stop:
            raise PatchError(f"value for key {self._stop} is not a map")
        return at

    def appended(self, item: Object) -> None:
        """Call it after an item with the merge key was appended to the list."""
        self._places.setdefault(typed_mark(item[self._merge_key]), len(self._items) - 1)

    def check(self, at: int, value: object) -> None:
        """Call it after the item at ``at``, found by ``value``, was merged: a null may have removed its merge key."""
        if value is not None or self._merge_key in self._items[at]:
            return
        mark_of_value = typed_mark(value)
        for i in range(at + 1, len(self._items)):
            if self._merge_key in self._items[i] and self._items[i][self._merge_key] is None:
                self._places[mark_of_value] = i
                return
        del self._places[mark_of_value]
