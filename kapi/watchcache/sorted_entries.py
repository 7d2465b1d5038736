"""The objects of one resource, by key and in order (upstream: apiserver ``storage/cacher/store``)."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

from kapi.watchcache.entry import Entry

_key = attrgetter("key")


class SortedEntries:
    """``sorted`` may be lent: it is copied before the next change, so that who holds it keeps one state."""

    __slots__ = ("by_key", "sorted", "size", "_lent")

    def __init__(self, by_key: dict[str, Entry], in_order: list[Entry], size: int) -> None:
        self.by_key = by_key
        self.sorted = in_order
        self.size = size  # bytes of all objects
        self._lent = False

    def borrow(self) -> list[Entry]:
        """All of them as they are now: never change the list."""
        self._lent = True
        return self.sorted

    def put(self, entry: Entry) -> Entry | None:
        """Answers the entry that was there under this key."""
        previous = self.by_key.get(entry.key)
        if self._lent:
            self._copy()
        self.by_key[entry.key] = entry
        self.size += len(entry.data)
        position = bisect_left(self.sorted, entry.key, key=_key)
        if previous is not None:
            self.size -= len(previous.data)
            self.sorted[position] = entry
        else:
            self.sorted.insert(position, entry)
        return previous

    def remove(self, key: str) -> Entry | None:
        """Answers the entry that was there."""
        previous = self.by_key.pop(key, None)
        if previous is not None:
            if self._lent:
                self._copy()
            del self.sorted[bisect_left(self.sorted, key, key=_key)]
            self.size -= len(previous.data)
        return previous

    def _copy(self) -> None:
        self.sorted = self.sorted.copy()
        self._lent = False


def within(entries: list[Entry], namespace: str) -> list[Entry]:
    """Those of a namespace; "" is all."""
    if not namespace:
        return entries
    start = bisect_left(entries, namespace + "/", key=_key)
    end = bisect_left(entries, namespace + "0", lo=start, key=_key)  # "0" comes after "/"
    return entries[start:end]
