"""Sorting in pieces: what a client sends may have as many entries as takes a call of ``sorted`` long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kapi.machinery.checkpoint import checkpoint, steps

Item = TypeVar("Item", bound=Any)
_PIECE = 4096  # items that are sorted at once


def ordered(items: Iterable[Item], key: Callable[[Item], Any] | None = None) -> list[Item]:
    """As ``sorted``: stable, with a checkpoint after some thousand comparisons."""
    found = list(items)
    if len(found) <= _PIECE:
        found.sort(key=key)
        return found
    if key is not None:  # each is made once, however often its item is compared
        keys = [key(item) for item in steps(found)]
        return [found[place] for place in _merged(list(range(len(found))), keys.__getitem__)]
    return _merged(found, None)


def _merged(found: list[Item], key: Callable[[Any], Any] | None) -> list[Item]:
    runs = []
    for start in range(0, len(found), _PIECE):
        checkpoint()
        runs.append(sorted(found[start : start + _PIECE], key=key))
    while len(runs) > 1:  # two sorted runs, one after the other, are merged in linear time
        merged = []
        for position in range(0, len(runs), 2):
            checkpoint()
            pair = sum(runs[position + 1 : position + 2], runs[position])
            pair.sort(key=key)
            merged.append(pair)
        runs = merged
    return runs[0]
