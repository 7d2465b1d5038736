"""The recent changes of one resource, for watches that resume and for lists at an earlier revision.

Upstream: apiserver ``storage/cacher/watch_cache.go``.

Older events, which few watches request, are compressed to a tenth of their memory: successive states of an object, and objects of
one kind, have nearly the same text.  Compressing takes some 5 us for an event, and happens when the event has been in the history
for some seconds and few clients write.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from sys import intern

import msgspec

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import costly
from kapi.machinery.freeing import free_in_steps
from kapi.store.errors import Compacted
from kapi.watchcache.backlog import MAX_BATCH_ENTRIES
from kapi.watchcache.entry import Entry, Scope
from kapi.watchcache.event import ADDED, DELETED, MODIFIED, CacheEvent
from kapi.watchcache.sorted_entries import Former

MAX_EVENTS = 256  # the most events in a pack
MAX_BYTES = 512_000  # the most bytes of states in a pack; the last state may exceed it
MIN_EVENTS = 32  # fewer events are only packed
MIN_BYTES = 32_000  # when their states have at least so many bytes
_PIECE_BYTES = 64 * 1024  # compressed between two checkpoints
_LEVEL = 1  # of zlib; higher levels take much longer and save little
_KINDS = (ADDED, MODIFIED, DELETED)
_encode = msgspec.msgpack.Encoder().encode
_revision = attrgetter("revision")
_newest = attrgetter("newest")
_EVENT_BYTES = 256  # estimated memory of an event
_MAX_STATES = 8  # earlier states kept for the pages of lists that are being read


class _Columns(msgspec.Struct, array_like=True, gc=False):
    """``states`` are objects at a revision; ``entries`` and ``previous`` their numbers, -1 for none."""

    kinds: list[int]
    entries: list[int]
    previous: list[int]
    namespaces: list[str]
    names: list[str]
    revisions: list[int]
    data: list[bytes]


_decode = msgspec.msgpack.Decoder(_Columns).decode


class PackedEvents:
    """Consecutive events of one resource, compressed."""

    __slots__ = ("_packed", "_scope", "revisions")

    def __init__(self, events: list[CacheEvent]) -> None:
        """Compresses ``events`` (from ``first_of``), in steps."""
        self.revisions = array("Q", [event.revision for event in events])
        self._scope = events[0].entry.scope
        columns = _Columns([], [], [], [], [], [], [])
        numbers: dict[int, int] = {}
        for event in events:
            columns.kinds.append(_KINDS.index(event.kind))
            columns.previous.append(_number_of(event.previous, columns, numbers))
            columns.entries.append(_number_of(event.entry, columns, numbers))
        whole = memoryview(_encode(columns))
        packer = zlib.compressobj(_LEVEL)
        parts = [
            packer.compress(whole[start : start + _PIECE_BYTES]) for start in costly(range(0, len(whole), _PIECE_BYTES))
        ]
        self._packed = b"".join((*parts, packer.flush()))

    def __len__(self) -> int:
        return len(self.revisions)

    @property
    def newest(self) -> int:
        return self.revisions[-1]

    @property
    def size(self) -> int:
        """The number of compressed bytes."""
        return len(self._packed)

    def events(self) -> list[CacheEvent]:
        """Decompresses the events; each call makes new ones."""
        columns = _decode(zlib.decompress(self._packed))
        scope = self._scope
        states: list[Entry | None] = [
            Entry(scope, f"{namespace}/{name}" if namespace else name, intern(namespace), name, revision, data)
            for namespace, name, revision, data in zip(
                columns.namespaces, columns.names, columns.revisions, columns.data, strict=True
            )
        ]
        states.append(None)  # the one of number -1
        return [
            CacheEvent(revision, _KINDS[kind], states[entry], states[previous])  # type: ignore[arg-type]  # there is an entry
            for revision, kind, entry, previous in zip(
                self.revisions, columns.kinds, columns.entries, columns.previous, strict=True
            )
        ]


def _number_of(entry: Entry | None, columns: _Columns, numbers: dict[int, int]) -> int:
    if entry is None:
        return -1
    number = numbers.get(id(entry))
    if number is None:
        number = numbers[id(entry)] = len(numbers)
        columns.namespaces.append(entry.namespace)
        columns.names.append(entry.name)
        columns.revisions.append(entry.revision)
        columns.data.append(entry.data)
    return number


def first_of(events: Iterable[CacheEvent], until: int) -> list[CacheEvent]:
    """The events to pack next, up to the revision ``until``; none when there are too few."""
    found: list[CacheEvent] = []
    states: set[int] = set()
    size = 0
    scope: Scope | None = None
    for event in islice(events, MAX_EVENTS):
        entry, previous = event.entry, event.previous
        scope = scope or entry.scope
        of_others = entry.scope is not scope or (previous is not None and previous.scope is not scope)
        if event.revision > until or of_others or size >= MAX_BYTES:
            break
        found.append(event)
        for state in (previous, entry):  # the previous one is from another pack at times, or older than the history
            if state is not None and id(state) not in states:
                states.add(id(state))
                size += len(state.data)
    return found if len(found) >= MIN_EVENTS or size >= MIN_BYTES else []


class History:
    """``events`` are in order, oldest first; older events have been packed.

    ``complete_after`` is the revision up to which events may lack the previous state of their object.
    """

    def __init__(self, events: deque[CacheEvent], complete_after: int, floor: int) -> None:
        self.events = events
        self.floor = floor  # history of this resource up to and including this revision is gone
        self._complete_after = complete_after
        self._states: dict[int, Former] = {}  # by revision
        self._packs: deque[PackedEvents] = deque()  # oldest first
        self._packed = 0  # number of events in the packs
        self._unpacked: tuple[PackedEvents, list[CacheEvent]] | None = None  # the pack that was read last

    def __len__(self) -> int:
        return self._packed + len(self.events)

    @property
    def newest(self) -> int:
        """The revision of the last change; 0 when none is known."""
        if self.events:
            return self.events[-1].revision
        return self._packs[-1].newest if self._packs else 0

    def is_gone(self, floor: int) -> bool:
        """Whether all events are older than ``floor``, the revision up to which the history of all resources is gone."""
        return max(self.newest, self.floor, self._complete_after) <= floor

    def check(self, since: int, floor: int, *, with_previous: bool) -> None:
        """Raises Compacted when changes after ``since`` are gone, or (``with_previous``) the previous states of their objects.

        ``floor`` is the revision up to which the history of all resources is gone.
        """
        oldest = max(floor, self.floor)
        if with_previous:
            oldest = max(oldest, self._complete_after)
        if since < oldest:
            raise Compacted(since, oldest)

    def after(self, since: int, until: int) -> list[CacheEvent]:
        """The first events after ``since``, at most ``MAX_BATCH_ENTRIES``.  Raises Compacted when some of them are gone."""
        if since < self.floor:
            raise Compacted(since, self.floor)
        events: Sequence[CacheEvent] = self.events
        if self._packs and since < self._packs[-1].newest:
            events = self._unpack(since)
        start = bisect_right(events, since, key=_revision)
        end = min(start + MAX_BATCH_ENTRIES, bisect_right(events, until, key=_revision))
        if start < len(events) - end:
            return list(islice(events, start, end))
        found = list(islice(reversed(events), len(events) - end, len(events) - start))  # a deque is slow in its middle
        found.reverse()
        return found

    def all_after(self, since: int, until: int) -> Iterator[CacheEvent]:
        """All events after ``since``, up to ``until``, oldest first.  Raises Compacted when some of them are gone."""
        while found := self.after(since, until):
            yield from found
            since = found[-1].revision
            checkpoint()

    def _unpack(self, since: int) -> list[CacheEvent]:
        """The events of the pack that has the first event after ``since``."""
        pack = self._packs[bisect_right(self._packs, since, key=_newest)]
        if self._unpacked is None or self._unpacked[0] is not pack:
            self._unpacked = pack, pack.events()
        return self._unpacked[1]

    def pack(self, until: int) -> None:
        """Packs the events up to ``until``, in steps: events may be added or dropped between them."""
        while chosen := first_of(self.events, until):
            made = PackedEvents(chosen)
            events = self.events
            if not events or events[0] is not chosen[0]:
                return  # some events were dropped during the packing
            for event in chosen:
                events.popleft()
                event.forget()
            self._packs.append(made)
            self._packed += len(made)
            checkpoint()

    def former(self, revision: int) -> Former:
        """The earlier state, at ``revision``, of all objects that have changed since.  Later calls update the same ``Former``.

        Raises Compacted.
        """
        if revision < self._complete_after:
            raise Compacted(revision, self._complete_after)
        state = self._states.get(revision)
        if state is None:
            if len(self._states) >= _MAX_STATES:
                del self._states[next(iter(self._states))]
            state = self._states[revision] = Former(revision)
        while True:
            while state.until < self.newest:
                since = self.after(state.until, self.newest)
                for event in since:
                    state.note(event.entry.key, event.revision, event.previous, deleted=event.kind == DELETED)
                checkpoint()
            state.sort()
            if state.until < self.floor:  # dropped meanwhile, perhaps with changes that were not noted
                raise Compacted(revision, self.floor)
            if state.until >= self.newest and state.is_sorted:  # no write during the sort, which runs in slices
                return state

    def free(self) -> None:
        """Frees the events in steps, when a new history replaces this one."""
        free_in_steps(list(self.events), len(self.events) * _EVENT_BYTES)

    def clear(self, floor: int) -> None:
        """Drops all events; ``floor`` is the newest revision."""
        self.events.clear()
        self._packs.clear()
        self._packed = 0
        self.drop_states()
        self.floor = floor

    def trim(self, until: int) -> None:
        """Drops the events up to a revision, unless a fault has cleared them already."""
        packs, events = self._packs, self.events
        floor = self.floor
        while packs and packs[0].newest <= until:
            gone = packs.popleft()
            self._packed -= len(gone)
            floor = gone.newest
        if packs:
            seen = bisect_right(packs[0].revisions, until)
            floor = packs[0].revisions[seen - 1] if seen else floor
        else:
            while events and events[0].revision <= until:
                event = events.popleft()
                event.forget()
                floor = event.revision
        self.floor = max(self.floor, floor)

    def drop_states(self) -> None:
        """Drops the earlier states and the unpacked events; a read that still needs them makes them again."""
        self._states.clear()
        self._unpacked = None
