"""The objects of one resource, by key and in order (upstream: apiserver ``storage/cacher/store``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter

from sortedcontainers import SortedKeyList

from kapi.watchcache.entry import Entry

_key = attrgetter("key")
_NEVER = "\U0010ffff"  # comes after every key


class Range:
    """Keys from ``start`` on, before ``end``."""

    __slots__ = ("end", "start")

    def __init__(self, start: str = "", end: str = _NEVER) -> None:
        self.start = start
        self.end = end

    @classmethod
    def of(cls, namespace: str, start: str = "") -> Range:
        """A namespace's ("" is all), from the name ``start`` on, which names the namespace too when that is ""."""
        if not namespace:
            return cls(start)
        return cls(f"{namespace}/{start}", namespace + "0")  # "0" comes after "/"

    @property
    def is_everything(self) -> bool:
        return not self.start and self.end == _NEVER

    def __contains__(self, key: str) -> bool:
        return self.start <= key < self.end


class SortedEntries:
    """The cost of a change does not depend on how many entries there are: they are in order in lists of bounded length.

    All of them together are these lists one after the other: 300,000 take some milliseconds, after each change.
    """

    __slots__ = ("_all", "_sorted", "by_key", "size")

    def __init__(self, by_key: dict[str, Entry], entries: Sequence[Entry], size: int) -> None:
        """``entries`` are those of ``by_key``, in order."""
        self.by_key = by_key
        self.size = size  # bytes of all objects
        self._sorted = SortedKeyList(entries, key=_key)
        self._all: list[Entry] | None = None

    def put(self, entry: Entry) -> Entry | None:
        """Answers the entry that was there under this key."""
        previous = self.by_key.get(entry.key)
        if previous is not None:
            self._sorted.remove(previous)
            self.size -= len(previous.data)
        self._sorted.add(entry)
        self.by_key[entry.key] = entry
        self.size += len(entry.data)
        self._all = None
        return previous

    def remove(self, key: str) -> Entry | None:
        """Answers the entry that was there."""
        previous = self.by_key.pop(key, None)
        if previous is not None:
            self._sorted.remove(previous)
            self.size -= len(previous.data)
            self._all = None
        return previous

    def in_order(self) -> list[Entry]:
        """All of them as they are now: never change the list."""
        if self._all is None:
            self._all = list(self._sorted)
        return self._all

    def all_within(self, place: Range) -> list[Entry]:
        """Those of a range as they are now: never change the list."""
        return self.in_order() if place.is_everything else list(self.within(place))

    def first(self, place: Range, limit: int) -> tuple[list[Entry], int]:
        """At most so many of a range as they are now, and how many follow."""
        found = list(islice(self.within(place), limit))
        return found, self.count(place) - len(found)

    def within(self, place: Range) -> Iterator[Entry]:
        """Those of a range in order; nothing may change meanwhile."""
        return self._sorted.irange_key(place.start, place.end, inclusive=(True, False))

    def count(self, place: Range) -> int:
        return max(0, self._sorted.bisect_key_left(place.end) - self._sorted.bisect_key_left(place.start))


def as_it_was(now: Iterable[Entry], former: Mapping[str, Entry | None], place: Range) -> Iterator[Entry]:
    """The entries of a range with what they were before: ``former`` in the order of its keys, None where nothing was.

    ``now`` are those of the range in order.
    """
    there = (entry for key, entry in former.items() if entry is not None and key in place)
    return merge((entry for entry in now if entry.key not in former), there, key=_key)
