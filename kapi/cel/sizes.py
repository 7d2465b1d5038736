"""Ranges of sizes and costs, and known sizes of values before an expression runs (upstream: cel-go ``checker/cost.go``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kapi.cel import types
from kapi.cel.syntax import Expr, ListExpr, Literal, MapExpr
from kapi.cel.types import CelType

MAX_UINT64 = 2**64 - 1
MAX_INCLUDES = 48  # items of a list that ``includes`` searches
#: returns the declared size at a path like ("self", "spec", "@items"), or None
SizeOf = Callable[[tuple[str, ...], CelType], "Range | None"]


def times(x: int, y: int) -> int:
    return min(x * y, MAX_UINT64)


def _factor(x: int, y: float) -> int:
    if x > 0 and y > 0 and x > MAX_UINT64 / y:
        return MAX_UINT64
    product = math.ceil(float(x) * y)
    return min(product, MAX_UINT64)


class Range(NamedTuple):
    """A size or a cost, with its minimum and maximum."""

    min: int
    max: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.min + other.min, MAX_UINT64), min(self.max + other.max, MAX_UINT64))

    def times(self, other: Range) -> Range:
        return Range(times(self.min, other.min), times(self.max, other.max))

    def by(self, factor: float) -> Range:
        return Range(_factor(self.min, factor), _factor(self.max, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.min, other.min), max(self.max, other.max))


def fixed(value: int) -> Range:
    return Range(value, value)


UNKNOWN = Range(0, MAX_UINT64)
ONE = fixed(1)


@dataclass(slots=True)
class Entry:
    """The sizes of the keys and values of a list or map."""

    kind: str
    key: Range
    value: Range

    def union(self, other: Entry | None) -> Entry | None:
        if other is None:
            return None
        return Entry(self.kind, self.key.union(other.key), self.value.union(other.value))


@dataclass(slots=True)
class Local:
    path: tuple[str, ...]
    size: Range | None
    entry: Entry | None


class Node(NamedTuple):
    """An argument for the estimates of functions."""

    expr: Expr
    path: tuple[str, ...]
    type: CelType
    size: Range | None


class Result(NamedTuple):
    cost: Range
    size: Range | None = None


def _replacements(size: int, old: int, new: int) -> tuple[int, int]:
    """(number of replacements, remaining length) of a text of ``size``, at the largest result."""
    if old == 0:
        return min(size + 1, MAX_UINT64), size
    if new <= old:
        return 0, size
    return -(-size // old), 0


def replaced(size: Range, old: Range, new: Range) -> Range:
    """The size of a string after replacement."""
    count_most, kept_most = _replacements(size.max, old.min, new.max)
    count_least, kept_least = _replacements(size.min, old.max, new.min)
    return Range(count_least, count_most).times(new).plus(Range(kept_least, kept_most))


def literal_size(node: Expr) -> Range | None:
    if isinstance(node, Literal):
        return fixed(len(node.value)) if isinstance(node.value, (str, bytes)) else ONE
    if isinstance(node, ListExpr):
        return fixed(len(node.elements))
    if isinstance(node, MapExpr):
        return fixed(len(node.entries))
    return None


def scalar(type_: CelType) -> bool:
    if types.is_optional(type_):
        return scalar(type_.params[0])
    return type_.kind in ("bool", "double", "duration", "int", "timestamp", "uint")
