"""The recent changes of one resource: what watches missed, and what lists at a former revision were (upstream: apiserver
``storage/cacher/watch_cache.go``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from kapi.store.errors import Compacted
from kapi.watchcache.backlog import BATCH_SEEN
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import CacheEvent

_revision = attrgetter("revision")
_MAX_STATES = 8  # former states kept for the pages of lists that are being read


@dataclass(slots=True)
class _State:
    """What was there at a revision, of objects that have changed up to the revision ``until``."""

    until: int
    former: dict[str, Entry | None]


class History:
    """``events`` are the oldest first."""

    def __init__(self, events: deque[CacheEvent], complete_after: int, floor: int) -> None:
        self.events = events
        self.floor = floor  # history up to and including this revision is gone, of this resource alone
        self._complete_after = complete_after  # what came before lacks previous states
        self._states: dict[int, _State] = {}

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

    def former(self, revision: int) -> dict[str, Entry | None]:
        """What the objects that have changed since a revision were then, in order of their keys; None where there was nothing.

        Raises Compacted.
        """
        if revision < self._complete_after:
            raise Compacted(revision, self._complete_after + 1)
        state = self._states.get(revision)
        if state is None:
            if len(self._states) >= _MAX_STATES:
                del self._states[next(iter(self._states))]
            state = self._states[revision] = _State(revision, {})
        since = []
        for event in reversed(self.events):
            if event.revision <= state.until:
                break
            since.append(event)
        if since:
            for event in reversed(since):
                state.former.setdefault(event.entry.key, event.previous)
            state.former = dict(sorted(state.former.items()))
            state.until = self.newest
        return state.former

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
