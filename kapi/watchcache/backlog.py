"""The backlog that a watch sends first: the present objects, or the history since its revision, in batches.

Batches are made on demand, so that a slow client holds at most one.  The number of entries read for a batch is bounded as well:
a selector that matches few objects must not block the thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter

from kapi.store.errors import Compacted
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import ADDED, BOOKMARK, Batch, CacheEvent, WatchEvent
from kapi.watchcache.selection import Group, Matches
from kapi.watchcache.unreadable import Unreadable

_key = attrgetter("key")
MAX_BATCH_ENTRIES = 2_000  # entries that are tested for a batch
_MAX_BATCH_EVENTS = 500
_MAX_BATCH_READ_BYTES = 1_000_000  # bytes of the entries that a selector is tested on for a batch
_MAX_BATCH_BYTES = 64_000  # bytes of the objects in a batch


class Initial:
    """The objects as of ``revision``, then the closing bookmark if ``initial_end`` is set.

    A batch is empty when many entries were tested and none was selected.  While the client does not read, the list of objects
    is released.  ``again`` returns the same list once more; it raises Compacted when the history does not go back that far.
    """

    __slots__ = ("_again", "_end", "_entries", "_group", "_last", "_matches", "_on_end", "_position", "_revision")

    def __init__(
        self,
        again: Callable[[], list[Entry]],
        group: Group,
        matches: Matches | None,
        revision: int,
        initial_end: bool,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._again = again
        self._entries: list[Entry] | None = again()
        self._position = 0  # index of the next entry
        self._last = ""  # key of the last entry that was sent
        self._group, self._matches = group, matches
        self._revision = revision
        self._end = initial_end  # whether the bookmark is still to be sent
        self._on_end = on_end  # called before the bookmark is sent

    def release(self) -> None:
        """Releases the list while the client does not read."""
        if self._entries is not None and self._position < len(self._entries):
            self._last = self._entries[self._position - 1].key if self._position else ""
            self._entries = None

    def __iter__(self) -> Initial:
        return self

    def __next__(self) -> Batch:
        if self._entries is None:
            self._entries = self._again()
            self._position = bisect_right(self._entries, self._last, key=_key)
        entries, group, matches = self._entries, self._group, self._matches
        events: list[WatchEvent] = []
        size = looked = 0
        position = start = self._position
        while position < len(entries):
            entry = entries[position]
            position += 1
            if matches is not None:
                looked += len(entry.data)
            try:
                if group.covers(entry) and (matches is None or matches(entry)):
                    events.append(WatchEvent(ADDED, entry.revision, entry))
                    size += len(entry.data)
            except Unreadable:
                pass  # the cache has now excluded it
            if (
                size >= _MAX_BATCH_BYTES
                or len(events) >= _MAX_BATCH_EVENTS
                or position - start >= MAX_BATCH_ENTRIES
                or looked >= _MAX_BATCH_READ_BYTES
            ):
                break
        self._position = position
        if position > start:
            return Batch(events)
        if not self._end:
            raise StopIteration
        self._end = False
        if self._on_end is not None:
            self._on_end()
        return Batch([WatchEvent(BOOKMARK, self._revision, None, None, True)])


def past(after: Callable[[int], list[CacheEvent]], since: int, group: Group) -> Iterator[Batch]:
    """The events that a watch missed after the revision ``since``, in batches.

    ``after(revision)`` returns the next events of the history.  None of them is held between two batches, so that slow clients
    do not keep history in memory.  Raises Compacted when events that were not sent yet have been compacted, or when a previous
    state that a selector must be tested on cannot be read.
    """
    while history := after(since):
        events: list[WatchEvent] = []
        size = looked = 0
        for event in history:
            since = event.revision
            if group.covers(event.entry):
                if group.matches is not None:
                    looked += len(event.entry.data)
                try:
                    selected = group.select(event)
                except Unreadable:
                    raise Compacted(since, since) from None
                event.forget()
                if selected is not None:
                    events.append(selected)
                    size += len(event.entry.data)
            if size >= _MAX_BATCH_BYTES or len(events) >= _MAX_BATCH_EVENTS or looked >= _MAX_BATCH_READ_BYTES:
                break
        del history, event
        batch, events = Batch(events), []
        yield batch
        del batch
