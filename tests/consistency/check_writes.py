"""Checks of writes: none lost, none invented, none done twice, and revisions in the order of time."""

from __future__ import annotations

from collections import Counter, defaultdict

from kapi.store.interface import DELETED
from tests.consistency.history import History, State, prefixes
from tests.consistency.records import Journal, Write
from tests.consistency.timeline import Timeline


def check_writes(history: History, journal: Journal, timeline: Timeline) -> list[str]:
    problems: list[str] = []
    attempted = {write.value: write for write in journal.writes if write.value}
    written: dict[str, State] = {}
    for state in history.states:
        if not state.value or not state.there:
            continue
        if state.value in written:
            problems.append(f"{state.value} was written at {written[state.value].revision} and at {state.revision}")
        written[state.value] = state
        write = attempted.get(state.value)
        if write is None or write.key != state.key:
            problems.append(f"nobody wrote {state.value} to {state.key} (revision {state.revision}): a phantom")
            continue
        if timeline.known(write.start) >= state.revision:
            known = timeline.known(write.start)
            problems.append(f"{state.value} has revision {state.revision}, but {known} was known before it began")
    dead = {state.value for state in history.dead.values() if state.value}
    for write in journal.writes:
        if not write.value:
            continue
        found = written.get(write.value)
        if write.done:
            problems += _acknowledged(history, write, found, write.value in dead)
        elif write.refused and found is not None:
            problems.append(f"{write} was refused and yet done at {found.revision}")
    return problems + _deletions(history, journal)


def _acknowledged(history: History, write: Write, found: State | None, died: bool) -> list[str]:
    if found is None or found.revision != write.revision:
        at = f"found at {found.revision}" if found else "made by a primary that lost it" if died else "not found"
        return [f"{write} is lost: {at}"]
    before = history.previous[write.revision]
    if write.verb == "create" and before is not None:
        return [f"{write} replaced {before.revision}"]
    if before is None and write.verb == "update" and write.status == 201:
        return []  # some kinds are created by an update, whatever version it names
    if write.verb in ("update", "patch") and before is None:
        return [f"{write} created"]
    if write.expected is not None and (before.revision if before else 0) != write.expected:
        return [f"{write} replaced {before.revision if before else None}"]
    return []


def _deletions(history: History, journal: Journal) -> list[str]:
    problems: list[str] = []
    deleted = {state.uid: state for state in history.states if state.kind == DELETED}
    unknown: Counter[str] = Counter()  # by key
    collections: set[str] = set()  # prefixes
    claimed: dict[str, Write] = {}
    for write in journal.writes:
        if write.verb == "deletecollection":
            collections.add(write.key)
            problems += [f"{uid} is not deleted, but {write} says so" for uid in write.uids if uid not in deleted]
        elif write.verb == "delete":
            if not write.done:
                if not write.refused:
                    unknown[write.key] += 1
                continue
            for uid in write.uids:
                state = deleted.get(uid)
                if state is None or state.key != write.key:
                    problems.append(f"{write} is lost")
                    continue
                if uid in claimed:
                    problems.append(f"{write} deleted what {claimed[uid]} had deleted")
                claimed[uid] = write
                before = history.previous[state.revision]
                if write.expected is not None and (before is None or before.revision != write.expected):
                    problems.append(f"{write} deleted {before.revision if before else None}")
    for key, states in _unclaimed(deleted, claimed).items():
        if not states[0].value or prefixes(key)[1] in collections:
            continue  # not ours, or one of a collection
        if len(states) > unknown[key]:
            revisions = [state.revision for state in states]
            problems.append(
                f"{key} was deleted at {revisions}, but only {unknown[key]} deletions are not accounted for"
            )
    return problems


def _unclaimed(deleted: dict[str, State], claimed: dict[str, Write]) -> dict[str, list[State]]:
    found: dict[str, list[State]] = defaultdict(list)
    for uid, state in deleted.items():
        if uid not in claimed:
            found[state.key].append(state)
    return found
