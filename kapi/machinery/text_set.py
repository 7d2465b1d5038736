"""A set of many short texts in three blocks of memory.

A watch keeps its selector as long as it lives, and a selector may ask for thousands of values: as a ``frozenset`` each is an
object of its own, five times as large as its text.  And small objects of a thousand watches lie between those of everything
else: Python gives 1 MiB back only when nothing at all in it is used, so most of it would stay when the watches have gone.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Set

from kapi.machinery.checkpoint import steps

MANY = 64  # texts: more are kept as one
TOO_MANY = (
    32_768  # texts: more take long to sort, and come in no request's line but in bodies, whose objects do not stay
)
_SEPARATOR = ","


def text_set(texts: Collection[str]) -> Set[str]:
    """As it is best kept; there are no commas in the texts."""
    return TextSet(texts) if MANY < len(texts) <= TOO_MANY else frozenset(texts)


def by_hash(hashes: Iterable[int], starts: Iterable[int]) -> tuple[array[int], array[int]]:
    """Hashes in their order, and what belongs to each."""
    pairs = sorted(zip(hashes, starts, strict=True))
    first, second = zip(*pairs, strict=True) if pairs else ((), ())
    return array("q", first), array("L", second)


class TextSet(Set[str]):
    """Of texts without commas.  Immutable; who is asked for takes as long as by bisection."""

    __slots__ = ("_hashes", "_starts", "_text")

    def __init__(self, texts: Iterable[str]) -> None:
        ordered = sorted(set(texts))
        self._text = f"{_SEPARATOR}{_SEPARATOR.join(ordered)}{_SEPARATOR}"
        hashes, starts = array("q"), array("L")
        start = 1
        for text in steps(ordered):
            hashes.append(hash(text))
            starts.append(start)
            start += len(text) + 1
        self._hashes, self._starts = by_hash(hashes, starts)

    def __len__(self) -> int:
        return len(self._hashes)

    def __iter__(self) -> Iterator[str]:
        """In their order."""
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
