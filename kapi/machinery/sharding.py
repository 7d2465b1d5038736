"""A shard of a collection: the objects for which the hash of a field is in given ranges.

Upstream: KEP-5866, apimachinery ``sharding``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kapi.machinery.memo import memoized

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF
UID, NAMESPACE = "object.metadata.uid", "object.metadata.namespace"


@memoized(65_536)
def hashed(text: str) -> int:
    """The 64-bit FNV-1a hash of a text."""
    value = _OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


class Shards(NamedTuple):
    """The ranges of hashes of a field; equal for selectors with the same text."""

    key: str  # UID or NAMESPACE
    ranges: tuple[tuple[int, int], ...]  # as given: from, to (exclusive)
    bounds: tuple[int, ...]  # in turn the beginnings and ends of the shard

    @classmethod
    def of(cls, key: str, ranges: Iterable[tuple[int, int]]) -> Shards:
        """``ranges`` may overlap, but none is empty."""
        given = tuple(ranges)
        bounds: list[int] = []
        for start, end in sorted(given):
            if bounds and start <= bounds[-1]:
                bounds[-1] = max(bounds[-1], end)
            else:
                bounds += start, end
        return cls(key, given, tuple(bounds))

    def has(self, text: str) -> bool:
        """Whether an object is in the shard; ``text`` is the value of its field."""
        return bisect_right(self.bounds, hashed(text)) % 2 == 1

    def __str__(self) -> str:
        """The text of the selector in a list's metadata."""
        return " || ".join(f"shardRange({self.key}, '0x{start:016x}', '0x{end:016x}')" for start, end in self.ranges)
