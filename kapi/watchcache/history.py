"""The recent changes of one resource: what watches missed, and what lists at a former revision were (upstream: apiserver
``storage/cacher/watch_cache.go``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from itertools import islice
from operator import attrgetter

from kapi.store.errors import Compacted
from kapi.watchcache.backlog import BATCH_SEEN
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import CacheEvent

_key = attrgetter("key")
_revision = attrgetter("revision")
_FEW_CHANGES = 500  # that are undone one by one
_MAX_STATES = 8  # former states kept for the pages of lists that are being read


class History:
    """``events`` are the oldest first."""

    def __init__(self, events: deque[CacheEvent], complete_after: int, floor: int) -> None:
        self.events = events
        self.floor = floor  # history up to and including this revision is gone, of this resource alone
        self._complete_after = complete_after  # what came before lacks previous states
        self._states: dict[int, list[Entry]] = {}

    def __len__(self) -> int:
        return len(self.events)

    @property
    def newest(self) -> int:
        """The revision of the last change; 0 when none is known."""
        return self.events[-1].revision if self.events else 0

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

    def state_at(self, revision: int, now: list[Entry]) -> list[Entry]:
        """The objects at a former revision, made from those there are ``now``.  Raises Compacted."""
        if revision < self._complete_after:
            raise Compacted(revision, self._complete_after + 1)
        state = self._states.get(revision)
        if state is None:
            if len(self._states) >= _MAX_STATES:
                del self._states[next(iter(self._states))]
            state = self._states[revision] = self._undo(revision, now)
        return state

    def _undo(self, revision: int, now: list[Entry]) -> list[Entry]:
        """The state before all events after a revision."""
        former: dict[str, Entry | None] = {}
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            former[event.entry.key] = event.previous
        if len(former) <= _FEW_CHANGES:
            return _changed_back(now, former)
        state = [entry for entry in now if entry.key not in former]
        state.extend(entry for entry in former.values() if entry is not None)
        state.sort(key=_key)
        return state

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
        """Former states that nobody reads any more."""
        self._states.clear()


def _changed_back(now: list[Entry], former: dict[str, Entry | None]) -> list[Entry]:
    """A copy with some entries as they were."""
    state = now.copy()
    for key, entry in former.items():
        place = bisect_left(state, key, key=_key)
        end = place + (place < len(state) and state[place].key == key)
        state[place:end] = () if entry is None else (entry,)
    return state
