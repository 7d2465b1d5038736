"""Where items are in the lists of a strategic merge patch, found by what they hold and not by looking at each.

Values are compared as the plain walk over a list would compare them, JSON types that Python takes for equal included.
"""

from __future__ import annotations

from kapi.machinery.checkpoint import steps
from kapi.machinery.tree import Object, Tree


class PatchError(ValueError):
    """A patch that does not apply; upstream answers with its text and 500."""


def mark(value: object) -> Tree:
    """A hashable stand-in: two are equal exactly when the JSON values are (1, 1.0 and true are)."""
    if isinstance(value, dict):
        return frozenset((name, mark(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(map(mark, value))
    return value


def typed_mark(value: object) -> Tree:
    """A stand-in for a value of a merge key: 1 and true are two."""
    return type(value), mark(value)


class Index:
    """The first item of a list for each value of its merge key."""

    __slots__ = ("_items", "_merge_key", "_places", "_stop")

    def __init__(self, items: list[Tree], merge_key: str) -> None:
        self._items = items
        self._merge_key = merge_key
        self._places: dict[Tree, int] = {}
        self._stop = -1  # the first item that is no map: nothing is looked for behind it
        for i, item in enumerate(steps(items)):
            if not isinstance(item, dict):
                self._stop = i
                break
            if merge_key in item:
                self._places.setdefault(typed_mark(item[merge_key]), i)

    def find(self, value: object) -> int:
        """The item's place, -1 when there is none.  Raises PatchError when an item on the way is no map."""
        at = self._places.get(typed_mark(value), -1)
        if at < 0 <= self._stop:
            raise PatchError(f"value for key {self._stop} is not a map")
        return at

    def appended(self, item: Object) -> None:
        """An item that has the merge key has been put at the list's end."""
        self._places.setdefault(typed_mark(item[self._merge_key]), len(self._items) - 1)

    def check(self, at: int, value: object) -> None:
        """The item at ``at``, found by ``value``, has been merged: a null takes the merge key away."""
        if value is not None or self._merge_key in self._items[at]:
            return
        wanted = typed_mark(value)
        for i in range(at + 1, len(self._items)):
            if self._merge_key in self._items[i] and self._items[i][self._merge_key] is None:
                self._places[wanted] = i
                return
        del self._places[wanted]
