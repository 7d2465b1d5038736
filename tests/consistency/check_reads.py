"""Checks of gets and lists, and of what a refusal says about the object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.consistency.history import History
from tests.consistency.records import Journal, Listing, Read
from tests.consistency.timeline import Timeline


def anywhere(
    check: Callable[[History, Any, Timeline], list[str]],
    history: History,
    answer: Any,
    timeline: Timeline,
    journal: Journal,
) -> list[str]:
    """What is wrong with an answer, unless a primary explains it that was replaced before the write was acknowledged.

    Servers show nothing that is not confirmed (docs/adr/0016): the counted "answers of replaced primaries" should be none.
    """
    problems = check(history, answer, timeline)
    if problems and any(not check(branch, answer, of_branch) for branch, of_branch in timeline.branches):
        journal.replaced.append(f"{answer}: {problems[0]}")
        return []
    return problems


def check_reads(history: History, journal: Journal, timeline: Timeline) -> list[str]:
    return [problem for read in journal.reads for problem in anywhere(_read, history, read, timeline, journal)]


def _read(history: History, read: Read, timeline: Timeline) -> list[str]:
    low, high = timeline.known(read.start), timeline.possible(read.end)
    if read.status == 404:
        if all(state is not None for state in history.between(read.key, low, high)):
            return [f"{read}: it was there from {low} to {high}"]
        return []
    found = history.at(read.revision)
    if found is None or found.key != read.key or found.value != read.value or not found.there:
        return [f"{read}: the history says {found}"]
    if read.revision > high:
        return [f"{read} comes before its time: {high} was the newest"]
    if found not in history.between(read.key, low, high):
        return [f"{read} is stale: {low} was known"]
    return []


def check_refusals(history: History, journal: Journal, timeline: Timeline) -> list[str]:
    """404 and 409 of writes are reads: the object was so at some time."""
    problems: list[str] = []
    for write in journal.writes:
        if write.status not in (404, 409) or write.undecided or write.verb == "deletecollection":
            continue
        states = list(history.between(write.key, timeline.known(write.start), timeline.possible(write.end)))
        if write.status == 404:
            right = any(state is None for state in states)
        elif write.reason == "AlreadyExists":
            right = any(state is not None for state in states)
        elif write.expected is not None:
            right = any(state is None or state.revision != write.expected for state in states)
        else:
            right = True  # two writers met, more often than the server tries
        if not right:
            problems.append(f"{write}: it was {[state and state.revision for state in states]}")
    return problems


def check_listings(history: History, journal: Journal, timeline: Timeline) -> list[str]:
    return [
        problem for listing in journal.listings for problem in anywhere(_listing, history, listing, timeline, journal)
    ]


def _listing(history: History, listing: Listing, timeline: Timeline) -> list[str]:
    revision = listing.revisions[0]
    what = (
        f"a list ({listing.mode} {listing.wanted or ''}) of {listing.prefix} by server {listing.server} at {revision}"
    )
    if set(listing.revisions) != {revision}:
        return [f"{what}: its pages have revisions {listing.revisions}"]
    if listing.mode == "exact" and listing.wanted != revision:
        return [f"{what}: another revision"]
    if listing.mode == "atleast" and revision < listing.wanted:
        return [f"{what} is too old"]
    known, possible = timeline.known(listing.start), timeline.possible(listing.end)
    if listing.mode == "fresh" and revision < known:
        return [f"{what} is stale: {known} was known"]
    if revision > possible:
        return [f"{what} comes before its time: {possible} was the newest"]
    expected = sorted(state.item() for state in history.replay(listing.prefix, listing.selector, revision))
    found = sorted(listing.items)
    if found != expected:
        lost, strange = set(expected) - set(found), set(found) - set(expected)
        return [f"{what} ({listing.selector}): misses {sorted(lost)}, has {sorted(strange)} beside the history"]
    if [item[:2] for item in listing.items] != [item[:2] for item in found]:
        return [f"{what} is not sorted"]
    return []
