"""Lists and pages of one resource, as it is or as it was (upstream: apiserver ``storage/cacher/lister_watcher.go``)."""

from __future__ import annotations

from itertools import islice

import msgspec

from kapi.machinery.checkpoint import checkpoint, steps
from kapi.machinery.selectors import Predicate
from kapi.watchcache.entry import Entry
from kapi.watchcache.selection import Choose, chooser, matcher
from kapi.watchcache.sorted_entries import Former, Range, SortedEntries, as_it_was

_PART_ENTRIES = 512  # entries that are looked at in one piece


class Stretch(msgspec.Struct):
    """``remaining``: how many follow; of a selection only whether some do (0 or 1).  ``fetched``: how many were looked at."""

    entries: list[Entry]
    fetched: int
    remaining: int = 0


def read(
    entries: SortedEntries, place: Range, predicate: Predicate | None, limit: int = 0, former: Former | None = None
) -> Stretch:
    """Those in a range that are selected, at most ``limit`` (0: all).  The list is shared: never change it.

    ``former``: what had been there instead.  Without a selection a page costs the same, however many objects there are.
    """
    choose = chooser(predicate)
    if choose is None and limit and former is None:
        found, remaining = entries.first(place, limit)
        return Stretch(found, len(found), remaining)
    if former is None:
        everything = entries.all_within(place)
    elif choose is None and 0 < limit <= _PART_ENTRIES:
        found = list(islice(as_it_was(entries.within(place), former, place), limit))
        return Stretch(found, len(found), entries.count(place) + former.more(place, entries.by_key) - len(found))
    else:  # of copies: others may write meanwhile
        everything = list(steps(as_it_was(entries.all_within(place), former.copy(), place), _PART_ENTRIES))
        if choose is None and 0 < limit < len(everything):
            return Stretch(everything[:limit], limit, len(everything) - limit)
    return Stretch(everything, len(everything)) if choose is None else _select(everything, choose, limit)


def read_one(entry: Entry | None, place: Range, predicate: Predicate) -> Stretch:
    """The same where only one object can be selected."""
    matches = matcher(predicate)
    if entry is None or entry.key not in place:
        return Stretch([], 0)
    return Stretch([entry] if matches is None or matches(entry) else [], 1)


def _select(entries: list[Entry], choose: Choose, limit: int) -> Stretch:
    selected: list[Entry] = []
    for start in range(0, len(entries), _PART_ENTRIES):
        checkpoint()
        part = entries[start : start + _PART_ENTRIES]
        found = choose(part)
        if limit and len(selected) + len(found) > limit:
            space = limit - len(selected)
            return Stretch(selected + found[:space], start + part.index(found[space]), 1)
        selected += found
    return Stretch(selected, len(entries))
