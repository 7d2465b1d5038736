"""What a watch begins with: the objects there are, or the history since its revision, batch by batch.

A batch is made when it is asked for, so that a slow client holds no more than one, and is bounded by what has to be looked at
for it, so that a selection that fits little does not hold the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapi.store.errors import Compacted
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import ADDED, BOOKMARK, Batch, CacheEvent, WatchEvent
from kapi.watchcache.selection import Group, Matches
from kapi.watchcache.unreadable import Unreadable

BATCH_SEEN = 2_000  # entries that are looked at for a batch
_BATCH_EVENTS = 500
_BATCH_LOOKED = 1_000_000  # bytes of entries that a selection looks into for a batch
_BATCH_BYTES = 64_000


def initial(
    entries: list[Entry], group: Group, matches: Matches | None, revision: int, initial_end: bool
) -> Iterator[Batch]:
    """The objects there are, and at the end the bookmark of ``revision`` if it is wanted.

    An empty batch says that many were looked at in vain.
    """
    events: list[WatchEvent] = []
    size = seen = looked = 0
    for entry in entries:
        seen += 1
        if matches is not None:
            looked += len(entry.data)
        try:
            if group.covers(entry) and (matches is None or matches(entry)):
                events.append(WatchEvent(ADDED, entry.revision, entry))
                size += len(entry.data)
        except Unreadable:
            continue  # it is set aside now
        finally:
            if size >= _BATCH_BYTES or len(events) >= _BATCH_EVENTS or seen >= BATCH_SEEN or looked >= _BATCH_LOOKED:
                batch, events = Batch(events), []
                size = seen = looked = 0
                yield batch
    if events:
        yield Batch(events)
    if initial_end:
        yield Batch([WatchEvent(BOOKMARK, revision, None, None, True)])


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
            if size >= _BATCH_BYTES or len(events) >= _BATCH_EVENTS or looked >= _BATCH_LOOKED:
                break
        del history, event
        batch, events = Batch(events), []
        yield batch
        del batch
