"""Known sizes of values before an expression runs, for cost estimates."""

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
    """An argument, as the estimates of functions need it."""

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
