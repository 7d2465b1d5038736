"""A list of JSON values with fast insertion and removal at any index.

A JSON patch may insert ten thousand values at the front of a list of a million.  The list consists of pieces of bounded length:
an operation looks at the lengths of the pieces and moves only the items of one piece.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Tree

LONG = 4096  # items from which a LongList is used
_PIECE_ITEMS = 2048  # of a new piece; it is divided when it has twice as many


class LongList:
    """The methods of a list that patches need; indices must be within bounds and not negative."""

    __slots__ = ("_length", "_pieces")

    def __init__(self, items: list[Tree]) -> None:
        self._pieces = [items[start : start + _PIECE_ITEMS] for start in range(0, len(items), _PIECE_ITEMS)] or [[]]
        self._length = len(items)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Tree]:
        for piece in self._pieces:
            yield from piece

    def _place(self, index: int) -> tuple[int, int]:
        """(piece, index in it) of an item; the list's end belongs to the last piece."""
        for number, piece in enumerate(self._pieces):
            if index < len(piece):
                return number, index
            index -= len(piece)
        last = len(self._pieces) - 1
        return last, len(self._pieces[last])

    def __getitem__(self, index: int) -> Tree:
        number, place = self._place(index)
        return self._pieces[number][place]

    def __setitem__(self, index: int, value: object) -> None:
        number, place = self._place(index)
        self._pieces[number][place] = value

    def __delitem__(self, index: int) -> None:
        number, place = self._place(index)
        del self._pieces[number][place]
        self._length -= 1
        if not self._pieces[number] and len(self._pieces) > 1:
            del self._pieces[number]

    def insert(self, index: int, value: object) -> None:
        number, place = self._place(index)
        piece = self._pieces[number]
        piece.insert(place, value)
        self._length += 1
        if len(piece) > 2 * _PIECE_ITEMS:
            self._pieces[number : number + 1] = [piece[:_PIECE_ITEMS], piece[_PIECE_ITEMS:]]

    def append(self, value: object) -> None:
        self.insert(self._length, value)


def plain(value: Tree) -> Tree:
    """A deep copy of a tree with lists in place of LongLists."""
    kind = type(value)
    if kind is dict:
        return {key: plain(item) if type(item) in _CONTAINERS else item for key, item in entries(value)}
    if kind is list or kind is LongList:
        return [plain(item) if type(item) in _CONTAINERS else item for item in elements(value)]
    return value


_CONTAINERS = frozenset((dict, list, LongList))
