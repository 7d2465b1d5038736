"""Lists and pages of one resource, of the present or of an earlier state (upstream: apiserver ``storage/cacher``, GetList)."""

from __future__ import annotations

from itertools import islice

import msgspec

from kapi.machinery.checkpoint import steps
from kapi.machinery.each import costly
from kapi.machinery.selectors import Predicate
from kapi.watchcache.entry import Entry
from kapi.watchcache.selection import Choose, chooser, matcher
from kapi.watchcache.sorted_entries import Former, Range, SortedEntries, as_it_was

_PART_ENTRIES = 512  # entries that are tested without a checkpoint


class ListPart(msgspec.Struct):
    """A list, or a page of it."""

    entries: list[Entry]
    fetched: int  # how many entries were tested
    #: how many entries follow; with a selector all that are beyond its limit, be they selected or not
    remaining: int = 0


def read(
    entries: SortedEntries, place: Range, predicate: Predicate | None, limit: int = 0, former: Former | None = None
) -> ListPart:
    """The selected entries in a range, at most ``limit`` (0: all).  The list is shared: never change it.

    ``former`` has the earlier states, for a list at an earlier revision.  Without a selector the cost of a page does not depend
    on the number of objects.
    """
    choose = chooser(predicate)
    if choose is None and limit and former is None:
        found, remaining = entries.first(place, limit)
        return ListPart(found, len(found), remaining)
    if former is None:
        everything = entries.all_within(place)
    elif choose is None and 0 < limit <= _PART_ENTRIES:
        found = list(islice(as_it_was(entries.within(place), former, place), limit))
        return ListPart(found, len(found), entries.count(place) + former.more(place, entries.by_key) - len(found))
    else:  # copies, because others may write during the steps
        everything = list(steps(as_it_was(entries.all_within(place), former.copy(), place), _PART_ENTRIES))
        if choose is None and 0 < limit < len(everything):
            return ListPart(everything[:limit], limit, len(everything) - limit)
    return ListPart(everything, len(everything)) if choose is None else _select(everything, choose, limit)


def read_one(entry: Entry | None, place: Range, predicate: Predicate) -> ListPart:
    """As ``read``, for a selector that only ``entry`` can match."""
    matches = matcher(predicate)
    if entry is None or entry.key not in place:
        return ListPart([], 0)
    return ListPart([entry] if matches is None or matches(entry) else [], 1)


def _select(entries: list[Entry], choose: Choose, limit: int) -> ListPart:
    selected: list[Entry] = []
    for start in costly(range(0, len(entries), _PART_ENTRIES)):
        part = entries[start : start + _PART_ENTRIES]
        found = choose(part)
        if limit and len(selected) + len(found) >= limit:
            space = limit - len(selected)
            end = start + part.index(found[space - 1]) + 1
            return ListPart(selected + found[:space], end, len(entries) - limit if end < len(entries) else 0)
        selected += found
    return ListPart(selected, len(entries))
