"""What a cache is to hold next, made next to what it holds now: the objects, in order, and the events that led to them.

With 100,000 objects that takes half a second, so it is made in slices; the cache then takes it as a whole.
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
    """Of one resource.  ``finish`` before it is taken."""

    def __init__(self) -> None:
        self.by_key: dict[str, Entry] = {}
        self.problems: dict[str, tuple[Entry, str]] = {}  # what cannot be read, and why
        self.ring: deque[CacheEvent] = deque()
        self.complete_after = 0  # what came before lacks previous states
        self.floor = 0  # history up to and including this revision is not known
        self._sorted: SortedEntries | None = None  # of ``by_key``, once it is finished

    def add(self, entry: Entry) -> bool:
        """An object there is; whether it can be read."""
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
        """Objects that are known to be readable."""
        self.by_key.update((entry.key, entry) for entry in entries)
        self._sorted = None

    def copy(self) -> Contents:
        """Of finished contents without a past: what is done with it does not concern them."""
        made = Contents()
        made._sorted = self.entries.copy()
        made.by_key = made._sorted.by_key
        return made

    def change(self, entry: Entry, *, deleted: bool) -> None:
        """What has happened since to an object, unless that is known."""
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
        """An event of the past, whose effect is in the objects."""
        if event.kind != ADDED and event.previous is None:
            self.complete_after = event.revision
        self.ring.append(event)

    def remember_gap(self, revision: int) -> None:
        """A change of the past that cannot be read: states before it are not known."""
        self.ring.clear()
        self.floor = revision

    def finish(self) -> Contents:
        """What is changed from now on stays in order."""
        if self._sorted is None:
            by_key, size = self.by_key, 0
            entries = [by_key[key] for key in steps(ordered(by_key), _STEP)]
            for entry in steps(entries, _STEP):
                size += len(entry.data)
            self._sorted = SortedEntries(by_key, entries, size)
        return self

    @property
    def entries(self) -> SortedEntries:
        """In order."""
        found = self.finish()._sorted
        assert found is not None
        return found
