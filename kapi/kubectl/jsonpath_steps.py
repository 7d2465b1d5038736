"""The steps of a JSONPath: each maps values to other values (upstream: client-go ``util/jsonpath/jsonpath.go``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from kapi.machinery.golang import type_name, value_text
from kapi.machinery.tree import Tree

Values = list[Tree]
Step = Callable[[Values], Values]


class JSONPathError(ValueError):
    """An error in a template, found by parsing or evaluating it."""


class Followed(Protocol):
    def follow(self, values: Values) -> Values: ...


def constant_text(text: str) -> Step:
    """A step to the text, whatever the values are."""
    return lambda values: [text]


def constant(value: Tree) -> Step:
    """A step that replaces each value by a constant."""
    return lambda values: [value for _ in values]


def unknown(name: str) -> Step:
    def step(values: Values) -> Values:
        raise JSONPathError(f"unrecognized identifier {name}")

    return step


def field(name: str, allow_missing: bool) -> Step:
    def step(values: Values) -> Values:
        found = [value[name] for value in values if isinstance(value, dict) and name in value]
        if values and not found and not allow_missing:
            raise JSONPathError(f"{name} is not found")
        return found

    return step


def wildcard(values: Values) -> Values:
    found: Values = []
    for value in values:
        if isinstance(value, list):
            found += value
        elif isinstance(value, dict):
            found += [value[key] for key in sorted(value)]
    return found


def descend(values: Values) -> Values:
    """The values and all values in them, except numbers, booleans and empty ones."""
    found: Values = []
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += [value[key] for key in sorted(value, reverse=True)]
        elif isinstance(value, list) and value:
            waiting += reversed(value)
        elif not (isinstance(value, str) and value):
            continue
        found.append(value)
    return found


def union(chains: Iterable[Followed]) -> Step:
    members = list(chains)
    return lambda values: [one for member in members for one in member.follow(values)]


@dataclass(slots=True)
class Slice:
    """``[first:last:stride]``; ``single`` is ``[first]``.  An index past the ends is an error."""

    first: int | None
    last: int | None
    stride: int | None
    single: bool

    def __call__(self, values: Values) -> Values:
        found: Values = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JSONPathError(f"{type_name(value)} is not array or slice")
            length = len(value)
            first, last = self._bounds(length)
            if first == last:
                return found
            for index, bad in ((first, not 0 <= first < length), (last - 1, not 0 <= last <= length)):
                if bad:
                    raise JSONPathError(f"array index out of bounds: index {index}, length {length}")
            if first > last:
                raise JSONPathError(f"starting index {first} is greater than ending index {last}")
            if self.stride is not None and self.stride <= 0:
                raise JSONPathError("step must be > 0")
            found += value[first : last : self.stride or 1]
        return found

    def _bounds(self, length: int) -> tuple[int, int]:
        first = self.first or 0
        last = first + 1 if self.single else length if self.last is None else self.last
        if last < 0 or (last == 0 and self.single):
            last += length
        return (first + length if first < 0 else first), last


def existing(inner: Step) -> Step:
    """The items for which a path has a value."""

    def step(values: Values) -> Values:
        found = []
        for item in _items(values):
            try:
                if inner([item]):
                    found.append(item)
            except JSONPathError:
                continue
        return found

    return step


def compared(left: Step, operator: str, right: Step) -> Step:
    """The items for which the comparison of both sides holds; each side must have one value."""

    def step(values: Values) -> Values:
        found = []
        for item in _items(values):
            sides = []
            for side in (left, right):
                here = side([item])
                if not here:
                    break
                if len(here) > 1:
                    raise JSONPathError("can only compare one element at a time")
                sides.append(here[0])
            else:
                if _holds(sides[0], operator, sides[1]):
                    found.append(item)
        return found

    return step


def _items(values: Values) -> Iterable[Tree]:
    for value in values:
        if not isinstance(value, list):
            raise JSONPathError(f"{value_text(value)} is not array or slice and cannot be filtered")
        yield from value


def _holds(left: object, operator: str, right: object) -> bool:
    if operator not in ("<", ">", "==", "!=", "<=", ">="):
        raise JSONPathError(f"unrecognized filter operator {operator}")
    for side in (left, right):
        if not isinstance(side, str | int | float):
            raise JSONPathError("invalid type for comparison")
    if type(left) is not type(right):
        raise JSONPathError("incompatible types for comparison")
    if operator == "==":
        return left == right
    if operator == "!=":
        return left != right
    if isinstance(left, str) and isinstance(right, str):
        return _ordered(left, operator, right)
    if isinstance(left, bool) or not isinstance(left, int | float) or not isinstance(right, int | float):
        raise JSONPathError("invalid type for comparison")
    return _ordered(left, operator, right)


def _ordered(left: str | float, operator: str, right: str | float) -> bool:
    order = (left > right) - (left < right)  # type: ignore[operator]  # both are of one type
    return {"<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}[operator]
