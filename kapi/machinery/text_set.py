"""A set of many short texts in three blocks of memory.

A watch holds its selector for its whole life, and a selector may have thousands of values.  In a ``frozenset`` each value is an
object, five times as large as its text.  These small objects lie in memory between other objects, and Python returns an
arena of 1 MiB only when all of it is free: most of the memory would stay occupied after the watches have ended.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Set

from kapi.machinery.each import elements

MAX_UNPACKED = 64  # texts in a ``frozenset``; more are packed
MAX_PACKED = 32_768  # texts; more take long to sort, and only bodies have them, whose objects do not stay
_SEPARATOR = ","


def text_set(texts: Collection[str]) -> Set[str]:
    """A set of texts without commas, packed if it is large."""
    return TextSet(texts) if MAX_UNPACKED < len(texts) <= MAX_PACKED else frozenset(texts)


def by_hash(hashes: Iterable[int], starts: Iterable[int]) -> tuple[array[int], array[int]]:
    """The hashes in ascending order, and their starts in the same order."""
    pairs = sorted(zip(hashes, starts, strict=True))
    first, second = zip(*pairs, strict=True) if pairs else ((), ())
    return array("q", first), array("L", second)


class TextSet(Set[str]):
    """An immutable set of texts without commas.  A bisection over hashes decides membership."""

    __slots__ = ("_hashes", "_starts", "_text")

    def __init__(self, texts: Iterable[str]) -> None:
        ordered = sorted(set(texts))
        self._text = f"{_SEPARATOR}{_SEPARATOR.join(ordered)}{_SEPARATOR}"
        hashes, starts = array("q"), array("L")
        start = 1
        for text in elements(ordered):
            hashes.append(hash(text))
            starts.append(start)
            start += len(text) + 1
        self._hashes, self._starts = by_hash(hashes, starts)

    def __len__(self) -> int:
        return len(self._hashes)

    def __iter__(self) -> Iterator[str]:
        """The texts in ascending order."""
        return iter(self._text[1:-1].split(_SEPARATOR) if self._hashes else ())

    def __contains__(self, text: object) -> bool:
        if not isinstance(text, str):
            return False
        number, hashes = hash(text), self._hashes
        place = bisect_left(hashes, number)
        while place < len(hashes) and hashes[place] == number:
            start = self._starts[place]
            if self._text.startswith(text, start) and self._text[start + len(text)] == _SEPARATOR:
                return True
            place += 1
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TextSet):
            return super().__eq__(other)
        return self._text == other._text and len(self) == len(other)

    def __hash__(self) -> int:
        return hash(self._text)
