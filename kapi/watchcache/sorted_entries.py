"""The objects of one resource, by key and in order (upstream: apiserver ``storage/cacher/store``)."""

from __future__ import annotations

from bisect import bisect_left, insort_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, islice
from operator import attrgetter

from kapi.watchcache.entry import Entry

_key = attrgetter("key")
_NEVER = "\U0010ffff"  # comes after every key
_LONGEST = 512  # entries of a part
_FILLED = 384  # of a part to begin with
_SHORTEST = 64


class Range:
    """Keys from ``start`` on, before ``end``."""

    __slots__ = ("end", "start")

    def __init__(self, start: str = "", end: str = _NEVER) -> None:
        self.start = start
        self.end = end

    @classmethod
    def of(cls, namespace: str, start: str = "") -> Range:
        """A namespace's ("" is all), from the name ``start`` on, which names the namespace too when that is ""."""
        if not namespace:
            return cls(start)
        return cls(f"{namespace}/{start}", namespace + "0")  # "0" comes after "/"

    @property
    def is_everything(self) -> bool:
        return not self.start and self.end == _NEVER

    def __contains__(self, key: str) -> bool:
        return self.start <= key < self.end


class SortedEntries:
    """The cost of a change does not depend on how many entries there are: they are kept in order in parts of bounded length.

    All of them together are the parts one after the other: 300,000 take some milliseconds, after each change.
    """

    __slots__ = ("_all", "_last", "_parts", "by_key", "size")

    def __init__(self, by_key: dict[str, Entry], entries: Sequence[Entry], size: int) -> None:
        """``entries`` are those of ``by_key``, in order."""
        self.by_key = by_key
        self.size = size  # bytes of all objects
        self._parts = [list(entries[start : start + _FILLED]) for start in range(0, len(entries), _FILLED)]
        self._last = [part[-1].key for part in self._parts]  # the greatest key of each part
        self._all: list[Entry] | None = None

    def put(self, entry: Entry) -> Entry | None:
        """Answers the entry that was there under this key."""
        key = entry.key
        previous = self.by_key.get(key)
        if previous is None:
            self._insert(entry)
        else:
            part = self._parts[bisect_left(self._last, key)]
            part[bisect_left(part, key, key=_key)] = entry
            self.size -= len(previous.data)
        self.by_key[key] = entry
        self.size += len(entry.data)
        self._all = None
        return previous

    def _insert(self, entry: Entry) -> None:
        parts, last, key = self._parts, self._last, entry.key
        number = bisect_left(last, key)
        if number < len(parts):
            insort_left(parts[number], entry, key=_key)
        elif parts:
            number -= 1
            parts[number].append(entry)
            last[number] = key
        else:
            parts.append([entry])
            last.append(key)
        self._divide(number)

    def _divide(self, number: int) -> None:
        """A part that has become too long is made two."""
        part = self._parts[number]
        if len(part) > _LONGEST:
            half = len(part) // 2
            self._parts.insert(number + 1, part[half:])
            del part[half:]
            self._last.insert(number, part[-1].key)

    def remove(self, key: str) -> Entry | None:
        """Answers the entry that was there."""
        previous = self.by_key.pop(key, None)
        if previous is not None:
            number, position = self._find(key)
            part = self._parts[number]
            del part[position]
            if len(part) < _SHORTEST:
                self._unite(number)
            elif position == len(part):
                self._last[number] = part[-1].key
            self.size -= len(previous.data)
            self._all = None
        return previous

    def _unite(self, number: int) -> None:
        """A part that has become short is joined to the one before it, or to the one behind it where it is the first."""
        parts, last = self._parts, self._last
        if len(parts) > 1:
            number = max(number, 1)
            parts[number - 1] += parts.pop(number)
            del last[number]
            number -= 1
        if parts[number]:
            last[number] = parts[number][-1].key
            self._divide(number)
        else:
            del parts[number], last[number]

    def in_order(self) -> list[Entry]:
        """All of them as they are now: never change the list."""
        if self._all is None:
            self._all = list(chain.from_iterable(self._parts))
        return self._all

    def all_within(self, place: Range) -> list[Entry]:
        """Those of a range as they are now: never change the list."""
        return self.in_order() if place.is_everything else list(self.within(place))

    def first(self, place: Range, limit: int) -> tuple[list[Entry], int]:
        """At most so many of a range as they are now, and how many follow."""
        found = list(islice(self.within(place), limit))
        return found, self.count(place) - len(found)

    def within(self, place: Range) -> Iterator[Entry]:
        """Those of a range in order; nothing may change meanwhile."""
        (number, start), (last, end) = self._find(place.start), self._find(place.end)
        parts = self._parts
        if number >= last:
            return iter(parts[number][start:end] if number == last < len(parts) else ())
        tail = parts[last][:end] if last < len(parts) else ()
        return chain(parts[number][start:], chain.from_iterable(islice(parts, number + 1, last)), tail)

    def count(self, place: Range) -> int:
        (number, start), (last, end) = self._find(place.start), self._find(place.end)
        return max(0, sum(map(len, self._parts[number:last])) + end - start) if number <= last else 0

    def _find(self, key: str) -> tuple[int, int]:
        """The part and the position in it of the first entry whose key is not less."""
        number = bisect_left(self._last, key)
        return number, bisect_left(self._parts[number], key, key=_key) if number < len(self._parts) else 0


def as_it_was(now: Iterable[Entry], former: Mapping[str, Entry | None], place: Range) -> Iterator[Entry]:
    """The entries of a range with what they were before: ``former`` in the order of its keys, None where nothing was.

    ``now`` are those of the range in order.
    """
    there = (entry for key, entry in former.items() if entry is not None and key in place)
    return merge((entry for entry in now if entry.key not in former), there, key=_key)
