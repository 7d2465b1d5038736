"""Lists of completion indexes, ``1,3-5,7`` (upstream: ``batch/validation`` validateIndexesFormat)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapi.machinery.golang import quote

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z", re.ASCII).match


class IndexesError(ValueError):
    """An invalid list; the text is upstream's."""


def _index(text: str, completions: int) -> int:
    if not _INTEGER(text):
        raise IndexesError(f"cannot convert string to integer for index: {quote(text)}")
    number = int(text)
    if number >= completions:
        raise IndexesError(f"too large index: {quote(text)}")
    return number


def _interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {quote(text)} violates the requirement that an index interval can have at most two parts "
            "separated by '-'"
        )
    first = _index(limits[0], completions)
    if len(limits) == 1:
        return first, first
    last = _index(limits[1], completions)
    if first >= last:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def count_indexes(text: str, completions: int) -> int:
    """How many indexes the list names.  Raises IndexesError."""
    total, previous = 0, None
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if previous is not None and previous >= first:
            raise IndexesError(f"non-increasing order, previous: {previous}, current: {first}")
        total += last - first + 1
        previous = last
    return total


def _intervals(text: str, completions: int) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        try:
            yield _interval(part, completions)
        except IndexesError:
            continue


def check_apart(completed: str, failed: str, completions: int) -> None:
    """Raises IndexesError when an index is in both lists; invalid intervals are skipped."""
    done, lost = _intervals(completed, completions), _intervals(failed, completions)
    first, second = next(done, None), next(lost, None)
    while first is not None and second is not None:
        if first[0] <= second[1] and second[0] <= first[1]:
            raise IndexesError(f"failedIndexes and completedIndexes overlap at index: {max(first[0], second[0])}")
        if first[0] <= second[0]:
            first = next(done, None)
        else:
            second = next(lost, None)
