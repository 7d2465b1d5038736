"""A change, its watch event, and the encoded bytes of the event: each is made once and shared by all watchers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import msgspec

from kapi.machinery.tree import Object
from kapi.request.pending import HeldBytes, Pending
from kapi.watchcache.counts import Sent, SentBatch
from kapi.watchcache.entry import Entry

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"


class WatchEvent:
    """One event as sent to watchers; shared by all that get the same.  ``entry`` is None for a bookmark."""

    __slots__ = ("type", "revision", "entry", "previous", "initial_end", "_encoded", "_json")

    def __init__(
        self, type: str, revision: int, entry: Entry | None, previous: Entry | None = None, initial_end: bool = False
    ) -> None:
        self.type = type
        self.revision = revision
        self.entry = entry
        self.previous = previous
        self.initial_end = initial_end  # the bookmark after the initial events: annotation k8s.io/initial-events-end
        self._encoded: dict[Hashable, bytes] | None = None
        self._json: bytes | None = None

    @property
    def object(self) -> Object:
        """The decoded tree: shared, never change it.  Not for bookmarks."""
        assert self.entry is not None
        return self.entry.object

    def encoded(self, form: Hashable, encode: Callable[[WatchEvent], bytes]) -> bytes:
        """The bytes in a form (media type, version ...), made once."""
        if self._encoded is None:
            self._encoded = {}
        data = self._encoded.get(form)
        if data is None:
            data = self._encoded[form] = encode(self)
        return data

    @property
    def json(self) -> bytes:
        """A line of JSON around the stored bytes.  Not for bookmarks."""
        if self._json is None:
            assert self.entry is not None
            self._json = b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.entry.data)
        return self._json

    def held(self) -> Iterator[bytes]:
        """The size of the bytes that the event refers to."""
        if self.entry is not None:
            yield self.entry.data
        if self._json is not None:
            yield self._json
        if self._encoded is not None:
            yield from self._encoded.values()


Encode = Callable[[WatchEvent], bytes]


class Batch:
    """Events of one turn, in order; shared by all watchers with the same selection."""

    __slots__ = ("events", "size", "_encoded", "_held")

    def __init__(self, events: list[WatchEvent]) -> None:
        self.events = events
        #: bytes of all objects
        self.size = sum([len(event.entry.data) for event in events if event.entry is not None])
        self._held: HeldBytes | None = None  # set once the batch has waited for a slow client
        self._encoded: dict[Hashable, tuple[bytes, SentBatch]] | None = None

    def is_encoded(self, form: Hashable) -> bool:
        return self._encoded is not None and form in self._encoded

    def encoded(self, form: Hashable, encode: Encode, sent: Sent, first: Encode | None = None) -> bytes:
        """The bytes of all events in a form, made once.  Counts in ``sent`` that one more watch gets them.

        ``first`` encodes the first event, if that is different.
        """
        if self._encoded is None:
            self._encoded = {}
        found = self._encoded.get(form)
        if found is None:
            parts = [event.encoded(form, encode) for event in self.events[first is not None :]]
            if first is not None:
                parts.insert(0, first(self.events[0]))
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            found = self._encoded[form] = data, SentBatch([len(part) for part in parts if part])
            if self._held is not None:
                self._held.add(self._all())
        data, counted = found
        if not counted.times:
            sent.begin(counted)
        counted.times += 1
        return data

    def waits(self, pending: Pending) -> None:
        """Counts the batch's bytes from now on, once for all watches that queue it."""
        if self._held is None:
            self._held = HeldBytes(pending)
            self._held.add(self._all())

    def _all(self) -> Iterator[bytes]:
        for event in self.events:
            yield from event.held()
        if self._encoded is not None:
            yield from (data for data, _ in self._encoded.values())

    def after(self, revision: int) -> Batch | None:
        """The events that are newer than a revision; None when there are none."""
        kept = [event for event in self.events if event.revision > revision]
        return Batch(kept) if kept else None


class CacheEvent(msgspec.Struct, eq=False, gc=False):
    """One change of one object, as the history keeps it; not tracked by the garbage collector, as ``Entry``."""

    revision: int
    kind: str  # ADDED, MODIFIED or DELETED
    entry: Entry  # of a deletion: the last state, with the deletion's revision
    previous: Entry | None
    _watch_events: dict[str, WatchEvent] | None = None

    def watch_event(self, type: str) -> WatchEvent:
        """The watch event with a type, which depends on the selector of the watch (see ``select``)."""
        if self._watch_events is None:
            self._watch_events = {}
        event = self._watch_events.get(type)
        if event is None:
            entry = self.entry
            if type == DELETED and self.kind != DELETED:
                assert self.previous is not None
                entry = self.previous.at(self.revision)
            event = self._watch_events[type] = WatchEvent(type, self.revision, entry, self.previous)
        return event

    @property
    def is_selected(self) -> bool:
        """Whether at least one watch selects it."""
        return self._watch_events is not None

    def forget(self) -> None:
        """Drops the encoded forms and the tree of the previous state, once the present watchers have received the event."""
        self._watch_events = None
        if self.previous is not None:
            self.previous.forget_object()
        if self.kind == DELETED:
            self.entry.forget_object()


def select(event: CacheEvent, matches: Callable[[Entry], bool] | None) -> WatchEvent | None:
    """The event that a watch with a selector sends for a change; None for none.

    An object that begins to match is ADDED; one that no longer matches is DELETED, with the last state that did.
    """
    if matches is None:
        return event.watch_event(event.kind)
    previous = event.previous
    if event.kind == DELETED:
        return event.watch_event(DELETED) if matches(previous or event.entry) else None
    was = previous is not None and matches(previous)
    if matches(event.entry):
        return event.watch_event(MODIFIED if was else ADDED)
    return event.watch_event(DELETED) if was else None
