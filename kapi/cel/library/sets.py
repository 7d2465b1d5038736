"""sets.contains, sets.equivalent, sets.intersects (upstream: cel-go ``ext/sets.go``)."""

from __future__ import annotations

from kapi.cel.frame import Frame
from kapi.cel.functions import declare as d
from kapi.cel.functions import walks
from kapi.cel.types import Value
from kapi.cel.values import Members


@walks
def contains(frame: Frame, items: Value, subset: Value) -> bool:
    """Whether every element of ``subset`` is in ``items``."""
    members = Members(items, frame)
    return all(value in members for value in frame.steps(subset))


@walks
def equivalent(frame: Frame, one: object, other: object) -> bool:
    return contains(frame, one, other) and contains(frame, other, one)


@walks
def intersects(frame: Frame, one: Value, other: Value) -> bool:
    members = Members(one, frame)
    return any(value in members for value in frame.steps(other))


SETS = [
    d("sets.contains", "list_sets_contains_list", "(list(A), list(A)) bool", contains),
    d(
        "sets.equivalent",
        "list_sets_equivalent_list",
        "(list(A), list(A)) bool",
        equivalent,
    ),
    d("sets.intersects", "list_sets_intersects_list", "(list(A), list(A)) bool", intersects),
]
