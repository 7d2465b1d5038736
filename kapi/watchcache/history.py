"""The recent changes of one resource, for watches that resume and for lists at an earlier revision.

Upstream: apiserver ``storage/cacher/watch_cache.go``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.freeing import free_in_steps
from kapi.store.errors import Compacted
from kapi.watchcache.backlog import MAX_BATCH_ENTRIES
from kapi.watchcache.event import DELETED, CacheEvent
from kapi.watchcache.packed_events import PackedEvents, first_of
from kapi.watchcache.sorted_entries import Former

_revision = attrgetter("revision")
_newest = attrgetter("newest")
_EVENT_BYTES = 256  # estimated memory of an event
_MAX_STATES = 8  # earlier states kept for the pages of lists that are being read


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
        """Whether all of it is older than ``floor``, the revision up to which the history of all resources is gone."""
        return max(self.newest, self.floor, self._complete_after) <= floor

    def check(self, since: int, floor: int, *, with_previous: bool) -> None:
        """Raises Compacted when changes after ``since`` are gone, or (``with_previous``) the previous states of their objects.

        ``floor`` is the revision up to which the history of all resources is gone.
        """
        oldest = max(floor, self.floor)
        if with_previous:
            oldest = max(oldest, self._complete_after)
        if since < oldest:
            raise Compacted(since, oldest + 1)

    def after(self, since: int, until: int) -> list[CacheEvent]:
        """The first events after ``since``, at most ``MAX_BATCH_ENTRIES``.  Raises Compacted when some of them are gone."""
        if since < self.floor:
            raise Compacted(since, self.floor + 1)
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
                return  # some of them were dropped during the packing
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
            raise Compacted(revision, self._complete_after + 1)
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
                raise Compacted(revision, self.floor + 1)
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
