"""The objects of one resource, by key and in order (upstream: apiserver ``storage/cacher/store``)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter

from sortedcontainers import SortedKeyList

from kapi.machinery.freeing import free_in_steps
from kapi.machinery.sorting import ordered
from kapi.watchcache.entry import Entry

_key = attrgetter("key")
_NEVER = "\U0010ffff"  # comes after every key
_MAX_KEYS_AT_ONCE = 4096  # keys that are sorted in one piece


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

    def copy(self) -> SortedEntries:
        return SortedEntries(dict(self.by_key), self.in_order(), self.size)

    def leave(self) -> None:
        """They are needed no more: what nobody else has is freed in steps."""
        free_in_steps(self.by_key, self.size)

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


class Former:
    """What objects were before they changed; None where nothing was."""

    __slots__ = ("_keys", "_uneven", "by_key", "until")

    def __init__(self, until: int) -> None:
        self.until = until  # the revision of the last change that is noted
        self.by_key: dict[str, Entry | None] = {}
        self._keys: list[str] = []  # in order; those that were noted since it was made are not in it
        self._uneven: set[str] = set()  # which may have been and not be now, or the other way round

    def note(self, key: str, revision: int, previous: Entry | None, *, deleted: bool) -> None:
        """A further change."""
        self.by_key.setdefault(key, previous)
        if deleted or previous is None:
            self._uneven.add(key)
        self.until = revision

    def copy(self) -> Former:
        """Nothing is noted in it."""
        made = Former(self.until)
        made.by_key, made._keys, made._uneven = dict(self.by_key), self._keys, self._uneven
        return made

    def sort(self) -> None:
        """Before it is read; what is noted meanwhile needs another call."""
        count = len(self.by_key) - len(self._keys)
        if count > _MAX_KEYS_AT_ONCE:
            self._keys = ordered(self.by_key)
        elif count:
            self._keys = sorted([*self._keys, *islice(reversed(self.by_key), count)])

    def within(self, place: Range) -> Iterator[Entry]:
        """What there was in a range, in order."""
        keys = self._keys
        start = bisect_left(keys, place.start)
        there = islice(keys, start, max(start, bisect_left(keys, place.end)))
        return (entry for key in there if (entry := self.by_key[key]) is not None)

    def more(self, place: Range, by_key: Mapping[str, Entry]) -> int:
        """How many more there were in a range than there are in ``by_key``."""
        count = 0
        for key in self._uneven:
            if key in place:
                count += (self.by_key[key] is not None) - (key in by_key)
        return count


def as_it_was(now: Iterable[Entry], former: Former, place: Range) -> Iterator[Entry]:
    """The entries of a range with what they were before.  ``now`` are those of the range in order."""
    changed = former.by_key
    return merge((entry for entry in now if entry.key not in changed), former.within(place), key=_key)
