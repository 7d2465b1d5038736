"""The next contents of a cache: the objects in order, and the events that led to them.

Preparing 100,000 objects takes half a second.  So this happens in slices, while the cache still serves its present contents;
``Cache.load`` then replaces them at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kapi.machinery.checkpoint import steps
from kapi.machinery.sorting import ordered
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import ADDED, CacheEvent
from kapi.watchcache.sorted_entries import SortedEntries
from kapi.watchcache.unreadable import problem_of

_STEP = 1024  # entries between two checkpoints


class Contents:
    """The contents of one resource's cache.  Call ``finish`` before ``Cache.load``."""

    def __init__(self) -> None:
        self.by_key: dict[str, Entry] = {}
        self.problems: dict[str, tuple[Entry, str]] = {}  # the unreadable objects, and why they are
        self.ring: deque[CacheEvent] = deque()  # the history, oldest first
        self.complete_after = 0  # revision up to which events may lack the object's previous state
        self.floor = 0  # history up to and including this revision is not known
        self._sorted: SortedEntries | None = None  # has ``by_key``; None until ``finish``

    def add(self, entry: Entry) -> bool:
        """Adds an object; returns whether it is readable."""
        problem = problem_of(entry.data, entry.revision, entry.name)
        if problem:
            self.problems[entry.key] = entry, problem
            return False
        if self._sorted is None:
            self.by_key[entry.key] = entry
        else:
            self._sorted.put(entry)
        return True

    def include(self, entries: Iterable[Entry]) -> None:
        """Adds objects that are known to be readable."""
        self.by_key.update((entry.key, entry) for entry in entries)
        self._sorted = None

    def copy(self) -> Contents:
        """An independent copy of the objects of finished contents, without history."""
        made = Contents()
        made._sorted = self.entries.copy()
        made.by_key = made._sorted.by_key
        return made

    def change(self, entry: Entry, *, deleted: bool) -> None:
        """Applies a later change, unless the object is as new already."""
        seen = self.by_key.get(entry.key)
        if seen is not None and seen.revision >= entry.revision:
            return
        if self._sorted is None:
            self.by_key.pop(entry.key, None)
        else:
            self._sorted.remove(entry.key)
        self.problems.pop(entry.key, None)
        if not deleted:
            self.add(entry)

    def remember(self, event: CacheEvent) -> None:
        """Appends an event to the history; its effect is in the objects already."""
        if event.kind != ADDED and event.previous is None:
            self.complete_after = event.revision
        self.ring.append(event)

    def remember_gap(self, revision: int) -> None:
        """Drops the history up to a change that cannot be read: states before it are not known."""
        self.ring.clear()
        self.floor = revision

    def finish(self) -> Contents:
        """Sorts the objects; later changes keep them in order."""
        if self._sorted is None:
            by_key, size = self.by_key, 0
            entries = [by_key[key] for key in steps(ordered(by_key), _STEP)]
            for entry in steps(entries, _STEP):
                size += len(entry.data)
            self._sorted = SortedEntries(by_key, entries, size)
        return self

    @property
    def entries(self) -> SortedEntries:
        """The objects in order."""
        found = self.finish()._sorted
        assert found is not None
        return found
