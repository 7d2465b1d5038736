"""Explains every answer by one history, ordered by revision."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kapi.store.interface import Change
from tests.consistency.clients import NAMES, NAMESPACE, Journal, Listing, Read, Watching, Write

PREFIX = f"core/configmaps/{NAMESPACE}/"


class State(NamedTuple):
    """An object after a change; ``kind`` is the change's."""

    revision: int
    kind: str
    value: str
    color: str

    @property
    def there(self) -> bool:
        return self.kind != "d"


class Checker:
    """``problems`` says what the history does not explain."""

    def __init__(self, history: list[Change], journal: Journal) -> None:
        self.problems: list[str] = list(journal.complaints)
        self.journal = journal
        self.states: dict[str, list[State]] = {name: [] for name in NAMES}
        self.changes: list[tuple[str, State]] = []
        for position, change in enumerate(history, 1):
            if change.revision != position:
                self.problems.append(f"revision {position} is missing")
                break
            name = change.key.removeprefix(PREFIX)
            if change.key.startswith(PREFIX) and name in self.states:
                obj = json.loads(change.data)
                if obj["metadata"]["resourceVersion"] != str(change.revision):
                    self.problems.append(f"revision {change.revision} has another one inside")
                state = State(change.revision, change.kind, obj["data"]["v"], obj["metadata"]["labels"]["color"])
                self.states[name].append(state)
                self.changes.append((name, state))
        self.last = len(history)
        self._by_revision = {state.revision: (name, state) for name, state in self.changes}

    def check(self) -> list[str]:
        acknowledged = sorted((end, revision) for end, revision in self._writes())
        self._ends = [end for end, _ in acknowledged]
        self._newest: list[int] = []
        for _, revision in acknowledged:
            self._newest.append(max(revision, self._newest[-1] if self._newest else 0))
        for read in self.journal.reads:
            self._read(read)
        for listing in self.journal.listings:
            self._listing(listing)
        for watching in self.journal.watchings:
            self._watching(watching)
        return self.problems

    def known_at(self, moment: float) -> int:
        """The newest revision that somebody had been told of before a moment."""
        position = bisect_left(self._ends, moment)
        return self._newest[position - 1] if position else 0

    def at(self, name: str, revision: int) -> State | None:
        """The object at a revision; None when it is not there."""
        states = self.states[name]
        position = bisect_right(states, revision, key=lambda state: state.revision)
        return states[position - 1] if position and states[position - 1].there else None

    def before(self, name: str, revision: int) -> State | None:
        return self.at(name, revision - 1)

    # -- writes

    def _writes(self) -> Iterator[tuple[float, int]]:
        """Checks the writes; yields when each acknowledged one ended, and its revision."""
        attempted = {write.value: write for write in self.journal.writes}
        written: dict[str, int] = {}
        for name, state in self.changes:
            if state.kind == "d":
                continue
            if state.value in written:
                self.problems.append(f"{state.value} was written at {written[state.value]} and at {state.revision}")
            written[state.value] = state.revision
            write = attempted.get(state.value)
            if write is None or write.name != name:
                self.problems.append(f"nobody wrote {state.value} to {name}: a phantom")
        for write in self.journal.writes:
            if write.status in (200, 201):
                revision = self._acknowledged(write, written)
                if revision:
                    yield write.end, revision
            elif write.status in (404, 409) and write.value in written:
                self.problems.append(f"{write} was refused and yet done")

    def _acknowledged(self, write: Write, written: dict[str, int]) -> int:
        if write.kind == "delete":
            return self._deleted(write)
        if written.get(write.value) != write.revision:
            self.problems.append(f"{write} is lost: found at {written.get(write.value)}")
            return 0
        before = self.before(write.name, write.revision)
        if (before.revision if before else 0) != write.expected:
            self.problems.append(f"{write} replaced {before}")
        return write.revision

    def _deleted(self, write: Write) -> int:
        for state in self.states[write.name]:
            if state.kind == "d":
                before = self.before(write.name, state.revision)
                if before is not None and before.revision == write.expected:
                    return state.revision
        self.problems.append(f"{write} is lost")
        return 0

    # -- reads

    def _read(self, read: Read) -> None:
        known = self.known_at(read.start)
        states = self.states[read.name]
        if read.status == 404:
            if self.at(read.name, known) is not None and not any(
                not state.there for state in states if state.revision > known
            ):
                self.problems.append(f"{read}: it was there since before {known}")
            return
        found = self._by_revision.get(read.revision)
        if found is None or found[0] != read.name or found[1].value != read.value or not found[1].there:
            self.problems.append(f"{read}: the history says {found}")
            return
        following = next((state for state in states if state.revision > read.revision), None)
        if following is not None and following.revision <= known:
            self.problems.append(f"{read} is stale: {following} was known, as was revision {known}")

    def _state(self, revision: int, color: str) -> list[tuple[str, int, str]]:
        found = [(name, self.at(name, revision)) for name in NAMES]
        return [
            (name, state.revision, state.value)
            for name, state in found
            if state is not None and (not color or state.color == color)
        ]

    def _listing(self, listing: Listing) -> None:
        revision = listing.revisions[0]
        if set(listing.revisions) != {revision}:
            self.problems.append(f"pages of one list have revisions {listing.revisions}")
        if listing.exact and listing.exact != revision:
            self.problems.append(f"a list at {listing.exact} says {revision}")
        if not listing.exact and revision < self.known_at(listing.start):
            self.problems.append(f"a list at {revision} is stale: {self.known_at(listing.start)} was known")
        if listing.items != self._state(revision, listing.color):
            self.problems.append(f"a list at {revision} ({listing.color}): {listing.items}")

    # -- watches

    def _expected(self, watching: Watching) -> list[tuple[str, str, int]]:
        events = []
        for name, state in self.changes:
            if state.revision <= watching.since:
                continue
            before = self.before(name, state.revision)
            was = before is not None and watching.color in ("", before.color)
            now = state.there and watching.color in ("", state.color)
            if was or now:
                kind = "DELETED" if not now else "MODIFIED" if was else "ADDED"
                events.append((kind, name, state.revision))
        return events

    def _watching(self, watching: Watching) -> None:
        expected = self._expected(watching)
        position = 0
        for told in watching.told:
            kind, _, revision = told
            following = expected[position] if position < len(expected) else ("", "", self.last + 1)
            if kind == "BOOKMARK":
                if following[2] <= revision:
                    self.problems.append(f"a bookmark at {revision} came before {following}")
            elif told == following:
                position += 1
            else:
                self.problems.append(
                    f"a watch from {watching.since} ({watching.color}) was told {told}, not {following}"
                )
                return
