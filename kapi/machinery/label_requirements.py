"""Requirements of label selectors, and a compact form of selectors with very many of them.

As Python objects a requirement of six characters takes 400 bytes, and a watch holds its selector for its whole life: a thousand
watches with selectors of 16 kB took a gigabyte, most of which stayed after they had ended (see ``text_set``).  So a large
selector is one text with a line for each requirement; a line is found by its key and parsed when an object has that label.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple, overload

from kapi.machinery.each import elements
from kapi.machinery.golang import NumberError, parse_int
from kapi.machinery.text_set import by_hash, text_set

EXACT = frozenset(["=", "==", "in"])  # operators that require one of some values
_ABSENT = frozenset(["!=", "notin", "!"])  # operators that match an object without the label
_BARE = frozenset(["exists", "!"])  # operators without a value


class LabelRequirement(NamedTuple):
    """One requirement: ``operator`` is ``=``, ``==``, ``!=``, ``in``, ``notin``, ``exists``, ``!``, ``gt`` or ``lt``."""

    key: str
    operator: str
    values: Set[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        operator, value = self.operator, labels.get(self.key)
        if operator in EXACT:
            return value is not None and value in self.values
        if operator in ("!=", "notin"):
            return value is None or value not in self.values
        if operator == "exists":
            return value is not None
        if operator == "!":
            return value is None
        if value is None or not is_int(value):
            return False
        (limit,) = self.values
        return parse_int(value) > parse_int(limit) if operator == "gt" else parse_int(value) < parse_int(limit)


def is_int(text: str) -> bool:
    try:
        parse_int(text)
    except NumberError:
        return False
    return True


class PackedRequirements(Sequence[LabelRequirement]):
    """Valid requirements in their order.  Iteration parses all of them, ``matches`` only those for an object's labels."""

    __slots__ = ("_hashes", "_needed", "_starts", "_text")

    def __init__(self, terms: Sequence[LabelRequirement]) -> None:
        lines, hashes, starts, needed = [], array("q"), array("L"), set()
        start = 0
        for key, operator, values in elements(terms):
            line = f"{key}\0{operator}\0,{','.join(sorted(values))},\n"
            lines.append(line)
            hashes.append(hash(key))
            starts.append(start)
            start += len(line)
            if operator not in _ABSENT:
                needed.add(key)
        self._text = "".join(lines)
        self._hashes, self._starts = by_hash(hashes, starts)
        self._needed = len(needed)  # number of labels that an object must have

    def __len__(self) -> int:
        return len(self._hashes)

    def __iter__(self) -> Iterator[LabelRequirement]:
        return map(_term, self._text.split("\n")[:-1])

    @overload
    def __getitem__(self, index: int) -> LabelRequirement: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[LabelRequirement]: ...

    def __getitem__(self, index: int | slice) -> LabelRequirement | Sequence[LabelRequirement]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedRequirements) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets all requirements."""
        if self._needed > len(labels):
            return False
        found, text = 0, self._text
        for key in elements(labels):
            needed, among = False, f",{labels[key]},"
            for start, operator, values in elements(self._of(key)):
                if operator in EXACT:
                    met = text.find(among, values, text.index("\n", values)) >= 0
                elif operator in ("!=", "notin"):
                    met = text.find(among, values, text.index("\n", values)) < 0
                else:
                    met = _term(text[start : text.index("\n", values)]).matches(labels)
                if not met:
                    return False
                needed = needed or operator not in _ABSENT
            found += needed
        return found == self._needed

    def _of(self, key: str) -> Iterator[tuple[int, str, int]]:
        """(start of the line, operator, start of the values) of each requirement for a key."""
        number, hashes, text = hash(key), self._hashes, self._text
        place = bisect_left(hashes, number)
        while place < len(hashes) and hashes[place] == number:
            start = self._starts[place]
            if text.startswith(f"{key}\0", start):
                begin = start + len(key) + 1
                end = text.index("\0", begin)
                yield start, text[begin:end], end + 1
            place += 1


def _term(line: str) -> LabelRequirement:
    key, operator, values = line.split("\0")
    return LabelRequirement(key, operator, frozenset() if operator in _BARE else text_set(values[1:-1].split(",")))
