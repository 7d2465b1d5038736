"""The recent changes of one resource: what watches missed, and what lists at a former revision were (upstream: apiserver
``storage/cacher/watch_cache.go``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import islice
from operator import attrgetter

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.freeing import free_in_steps
from kapi.store.errors import Compacted
from kapi.watchcache.backlog import BATCH_SEEN
from kapi.watchcache.event import DELETED, CacheEvent
from kapi.watchcache.sorted_entries import Former

_revision = attrgetter("revision")
_EVENT_BYTES = 256  # of an event at least
_MAX_STATES = 8  # former states kept for the pages of lists that are being read


class History:
    """``events`` are the oldest first."""

    def __init__(self, events: deque[CacheEvent], complete_after: int, floor: int) -> None:
        self.events = events
        self.floor = floor  # history up to and including this revision is gone, of this resource alone
        self._complete_after = complete_after  # what came before lacks previous states
        self._states: dict[int, Former] = {}  # by the revision that they are of

    def __len__(self) -> int:
        return len(self.events)

    @property
    def newest(self) -> int:
        """The revision of the last change; 0 when none is known."""
        return self.events[-1].revision if self.events else 0

    def is_gone(self, floor: int) -> bool:
        """Nobody may ask for changes any more, and nothing is lacking that all resources together still have.

        ``floor``: of all resources together.
        """
        return max(self.newest, self.floor, self._complete_after) <= floor

    def check(self, since: int, floor: int, *, with_previous: bool) -> None:
        """Raises Compacted when changes after ``since`` are gone, or the states before them if these are needed.

        ``floor``: of all resources together.
        """
        oldest = max(floor, self.floor)
        if with_previous:
            oldest = max(oldest, self._complete_after)
        if since < oldest:
            raise Compacted(since, oldest + 1)

    def after(self, since: int, until: int) -> list[CacheEvent]:
        """The next events, up to a bound.  Raises Compacted when some of them are gone."""
        if since < self.floor:
            raise Compacted(since, self.floor + 1)
        events = self.events
        start = bisect_right(events, since, key=_revision)
        end = min(start + BATCH_SEEN, bisect_right(events, until, key=_revision))
        if start < len(events) - end:
            return list(islice(events, start, end))
        found = list(islice(reversed(events), len(events) - end, len(events) - start))  # from the nearer end
        found.reverse()
        return found

    def former(self, revision: int) -> Former:
        """What the objects that have changed since a revision were then.  It may go on being noted there.

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
                if len(since) >= BATCH_SEEN:
                    checkpoint()
            state.sort()
            if state.until == self.newest:  # nobody has written meanwhile
                return state

    def leave(self) -> None:
        """It is needed no more: what nobody else has is freed in steps."""
        free_in_steps(list(self.events), len(self.events) * _EVENT_BYTES)

    def clear(self, floor: int) -> None:
        """Everything up to the revision ``floor`` is forgotten."""
        self.events.clear()
        self._states.clear()
        self.floor = floor

    def trim(self, event: CacheEvent) -> None:
        """Loses its oldest event, unless a fault has taken it before."""
        if self.events and self.events[0] is event:
            self.events.popleft()
            self.floor = max(self.floor, event.revision)

    def drop_states(self) -> None:
        """Drops former states that no read needs any more."""
        self._states.clear()
