"""Sorting with checkpoints: one call of ``sorted`` for a client's large list would block the reactor."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kapi.machinery.checkpoint import checkpoint, steps
from kapi.machinery.freeing import free_in_steps

Item = TypeVar("Item", bound=Any)
_PIECE_ITEMS = 4096  # items that are sorted or merged at once


def ordered(items: Iterable[Item], key: Callable[[Item], Any] | None = None) -> list[Item]:
    """``sorted``, also stable, with a checkpoint after some thousand comparisons."""
    found = list(items)
    if len(found) <= _PIECE_ITEMS:
        found.sort(key=key)
        return found
    if key is None:
        return _sorted(found, None)
    keys = [key(item) for item in steps(found)]  # each key is made once, although its item is compared often
    free_in_steps(keys)
    places = _sorted(list(range(len(found))), keys.__getitem__)
    return [found[place] for place in steps(places)]


def _sorted(found: list[Item], key: Callable[[Item], Any] | None) -> list[Item]:
    runs = []
    for start in range(0, len(found), _PIECE_ITEMS):
        checkpoint()
        runs.append(sorted(found[start : start + _PIECE_ITEMS], key=key))
    while len(runs) > 1:
        pairs = [runs[position : position + 2] for position in range(0, len(runs), 2)]
        runs = [_merged(pair[0], pair[1], key) if len(pair) > 1 else pair[0] for pair in pairs]
    return runs[0]


def _merged(one: list[Item], other: list[Item], key: Callable[[Item], Any] | None) -> list[Item]:
    """Merges two sorted runs in linear time; of equal items the items of ``one`` come first."""
    merged: list[Item] = []
    value = key or (lambda item: item)
    i = j = 0
    while i < len(one) and j < len(other):
        checkpoint()
        end, stop = min(i + _PIECE_ITEMS, len(one)), min(j + _PIECE_ITEMS, len(other))
        last, latest = value(one[end - 1]), value(other[stop - 1])
        if latest < last:  # greater items may belong after the next piece
            end = bisect_right(one, latest, i, end, key=key)
        else:
            stop = bisect_left(other, last, j, stop, key=key)
        merged += sorted(one[i:end] + other[j:stop], key=key)
        i, j = end, stop
    return merged + one[i:] + other[j:]
