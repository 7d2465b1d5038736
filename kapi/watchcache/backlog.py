"""What a watch begins with: the objects there are, or the history since its revision, batch by batch.

A batch is made when it is asked for, so that a slow client holds no more than one, and is bounded by what has to be looked at
for it, so that a selection that fits little does not hold the thread.
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
BATCH_SEEN = 2_000  # entries that are looked at for a batch
_BATCH_EVENTS = 500
_BATCH_LOOKED_BYTES = 1_000_000  # bytes of entries that a selection looks into for a batch
_BATCH_BYTES = 64_000


class Initial:
    """The objects there are at ``revision``, and at the end its bookmark if it is wanted.

    An empty batch says that many were looked at in vain.  While the client does not read nothing of the objects is held:
    ``again`` answers them once more, as they were (it raises Compacted when the history does not go back so far).
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
        self._position = 0  # of the next entry
        self._last = ""  # the key of the one before
        self._group, self._matches = group, matches
        self._revision = revision
        self._end = initial_end  # the bookmark is still to come
        self._on_end = on_end  # called when it is handed out

    def release(self) -> None:
        """The client does not read."""
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
                pass  # it is set aside now
            if (
                size >= _BATCH_BYTES
                or len(events) >= _BATCH_EVENTS
                or position - start >= BATCH_SEEN
                or looked >= _BATCH_LOOKED_BYTES
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
    """What a watch has missed after the revision ``since``, likewise.

    ``after`` answers the next events of the history; nothing of it is held while the client reads, so that clients that do
    not read keep no history.  Raises Compacted when the history went on without a client, or a state that it must be
    compared with cannot be read.
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
                    raise Compacted(since, since + 1) from None
                event.forget()
                if selected is not None:
                    events.append(selected)
                    size += len(event.entry.data)
            if size >= _BATCH_BYTES or len(events) >= _BATCH_EVENTS or looked >= _BATCH_LOOKED_BYTES:
                break
        del history, event
        batch, events = Batch(events), []
        yield batch
        del batch
