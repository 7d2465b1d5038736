"""What is known of the sizes of values before an expression runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kapi.cel import types
from kapi.cel.ranges import MAX_UINT64, ONE, Range, fixed
from kapi.cel.syntax import Expr, ListExpr, Literal, MapExpr
from kapi.cel.types import CelType

#: the declared size of what is found at a path like ("self", "spec", "@items"), or None
SizeOf = Callable[[tuple[str, ...], CelType], "Range | None"]


@dataclass(slots=True)
class Entry:
    """Sizes of what a container holds."""

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
    """What a function's estimate may look at."""

    expr: Expr
    path: tuple[str, ...]
    type: CelType
    size: Range | None


class Result(NamedTuple):
    cost: Range
    size: Range | None = None


def _replacements(size: int, old: int, new: int) -> tuple[int, int]:
    """How many new parts of a length a text may get, and how much of it may be left."""
    if old == 0:
        return min(size + 1, MAX_UINT64), size
    if new <= old:
        return 0, size
    return -(-size // old), 0


def replaced(size: Range, old: Range, new: Range) -> Range:
    """The size of a string after replacement."""
    count_most, kept_most = _replacements(size.most, old.least, new.most)
    count_least, kept_least = _replacements(size.least, old.most, new.least)
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
