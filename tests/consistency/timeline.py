"""Which revisions can be meant by a moment: what was known before it, and what cannot have been there yet."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from tests.consistency.history import History
from tests.consistency.records import Journal


class Timeline:
    """Built once, asked by bisection."""

    def __init__(self, history: History, journal: Journal) -> None:
        self._last = history.last
        self.branches = [(branch, Timeline(branch, journal)) for branch in history.branches]
        self._moments: list[float] = []
        self._known: list[int] = []
        newest = 0
        # what a dead branch made is known to nobody afterwards
        dead = history.dead
        for moment, revision in sorted(journal.observed):
            if revision > newest and revision <= history.last and revision not in dead:
                newest = revision
                self._moments.append(moment)
                self._known.append(newest)
        starts = {write.value: write.start for write in journal.writes if write.value}
        begun = sorted(
            (
                (starts[state.value], state.revision)
                for state in history.states
                if state.there and state.value in starts
            ),
            reverse=True,
        )
        self._begun: list[float] = []  # rising
        self._least: list[int] = []  # the least revision of a write that began then or later
        least = self._last + 1
        for start, revision in begun:
            least = min(least, revision)
            self._begun.append(start)
            self._least.append(least)
        self._begun.reverse()
        self._least.reverse()

    def known(self, moment: float) -> int:
        """The newest revision that somebody had been told of before a moment."""
        position = bisect_left(self._moments, moment)
        return self._known[position - 1] if position else 0

    def possible(self, moment: float) -> int:
        """The newest revision that can have been there at a moment: a write that began later is behind it."""
        position = bisect_right(self._begun, moment)
        return self._least[position] - 1 if position < len(self._least) else self._last
