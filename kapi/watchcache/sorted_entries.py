"""The objects of one resource, by key and in order (upstream: apiserver ``storage/cacher/store``)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any

from sortedcontainers import SortedKeyList

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.sorting import ordered
from kapi.watchcache.entry import Entry

_key = attrgetter("key")
_MAX_KEY = "\U0010ffff"  # sorts after every key
_MAX_KEYS_AT_ONCE = 4096  # more keys are sorted in slices


class Range:
    """The keys from ``start`` on that sort before ``end``."""

    __slots__ = ("end", "start")

    def __init__(self, start: str = "", end: str = _MAX_KEY) -> None:
        self.start = start
        self.end = end

    @classmethod
    def of(cls, namespace: str, start: str = "") -> Range:
        """The keys of a namespace from the name ``start`` on; for all namespaces ("") from the key ``start`` on."""
        if not namespace:
            return cls(start)
        return cls(f"{namespace}/{start}", namespace + "0")  # "0" is the character after "/"

    @property
    def is_everything(self) -> bool:
        return not self.start  # a range with an end begins with its namespace

    def __contains__(self, key: str) -> bool:
        return self.start <= key < self.end


def _sorted_list(entries: Sequence[Entry]) -> SortedKeyList[Entry, str]:
    """Of entries that are in order, made part by part: ``SortedKeyList`` sorts what it is given, in one piece."""
    made: Any = SortedKeyList(key=_key)
    for start in range(0, len(entries), made._load):
        checkpoint()
        part = list(entries[start : start + made._load])
        keys = list(map(_key, part))
        made._lists.append(part)
        made._keys.append(keys)
        made._maxes.append(keys[-1])
    made._len = len(entries)
    found: SortedKeyList[Entry, str] = made
    return found


class SortedEntries:
    """The entries of a resource by key, and sorted in many lists of bounded length.

    So the cost of a change does not depend on the number of entries.  ``in_order`` joins the lists again after a change, which
    takes some milliseconds for 300,000 entries.
    """

    __slots__ = ("_all", "_sorted", "by_key", "size")

    def __init__(self, by_key: dict[str, Entry], entries: Sequence[Entry], size: int) -> None:
        """``entries`` are those of ``by_key``, in order."""
        self.by_key = by_key
        self.size = size  # bytes of all objects
        self._sorted = _sorted_list(entries)
        self._all: list[Entry] | None = None

    def copy(self) -> SortedEntries:
        return SortedEntries(dict(self.by_key), self.in_order(), self.size)

    def free(self) -> None:
        """Frees the entries in steps, when new contents replace these."""
        free_in_steps(self.by_key, self.size)

    def put(self, entry: Entry) -> Entry | None:
        """Adds or replaces an entry; returns the one that it replaces."""
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
        """Removes an entry; returns it, None when there was none."""
        previous = self.by_key.pop(key, None)
        if previous is not None:
            self._sorted.remove(previous)
            self.size -= len(previous.data)
            self._all = None
        return previous

    def in_order(self) -> list[Entry]:
        """All entries.  The list is shared: never change it."""
        if self._all is None:
            self._all = list(self._sorted)
        return self._all

    def all_within(self, place: Range) -> list[Entry]:
        """All entries of a range.  The list may be shared: never change it."""
        return self.in_order() if place.is_everything else list(self.within(place))

    def first(self, place: Range, limit: int) -> tuple[list[Entry], int]:
        """The first entries of a range, at most ``limit``, and how many follow in the range."""
        start, end = self._places(place)
        found = self._sorted[start : min(start + limit, end)]
        return found, max(0, end - start) - len(found)

    def within(self, place: Range) -> Iterator[Entry]:
        """Iterates over the entries of a range; they must not change meanwhile."""
        return self._sorted.irange_key(place.start, place.end, inclusive=(True, False))

    def count(self, place: Range) -> int:
        """The number of entries in a range."""
        start, end = self._places(place)
        return max(0, end - start)

    def _places(self, place: Range) -> tuple[int, int]:
        return self._sorted.bisect_key_left(place.start), self._sorted.bisect_key_left(place.end)


class Former:
    """The states that changed objects had at an earlier revision, None for objects that did not exist then.

    Together with the present entries they give the list at that revision (``as_it_was``).
    """

    __slots__ = ("_keys", "_uneven", "by_key", "until")

    def __init__(self, until: int) -> None:
        self.until = until  # the revision of the last change noted here
        self.by_key: dict[str, Entry | None] = {}
        self._keys: list[str] = []  # the sorted keys, as of the last ``sort``
        self._uneven: set[str] = set()  # keys that may exist at only one of the two revisions

    def note(self, key: str, revision: int, previous: Entry | None, *, deleted: bool) -> None:
        """Notes a further change; ``previous`` is the object's state before it."""
        self.by_key.setdefault(key, previous)
        if deleted or previous is None:
            self._uneven.add(key)
        self.until = revision

    def copy(self) -> Former:
        """A copy in which no further changes are noted."""
        made = Former(self.until)
        made.by_key, made._keys, made._uneven = dict(self.by_key), self._keys, self._uneven
        return made

    def sort(self) -> None:
        """Must be called before it is read.  It runs in slices: changes noted meanwhile need another call."""
        count = len(self.by_key) - len(self._keys)
        if count > _MAX_KEYS_AT_ONCE:
            made = ordered(self.by_key)
            if len(made) > len(self._keys):  # else another caller has sorted more keys meanwhile
                self._keys = made
        elif count:
            self._keys = sorted([*self._keys, *islice(reversed(self.by_key), count)])

    @property
    def is_sorted(self) -> bool:
        """Whether all changes are noted in order."""
        return len(self._keys) == len(self.by_key)

    def within(self, place: Range) -> Iterator[Entry]:
        """The earlier states of changed objects in a range, in order."""
        keys = self._keys
        start = bisect_left(keys, place.start)
        there = islice(keys, start, max(start, bisect_left(keys, place.end)))
        return (entry for key in there if (entry := self.by_key[key]) is not None)

    def more(self, place: Range, by_key: Mapping[str, Entry]) -> int:
        """How many more objects a range had at the earlier revision than it has in ``by_key``."""
        count = 0
        for key in self._uneven:
            if key in place:
                count += (self.by_key[key] is not None) - (key in by_key)
        return count


def as_it_was(now: Iterable[Entry], former: Former, place: Range) -> Iterator[Entry]:
    """The entries of a range at the earlier revision.  ``now`` are the present ones, in order."""
    changed = former.by_key
    return merge((entry for entry in now if entry.key not in changed), former.within(place), key=_key)
