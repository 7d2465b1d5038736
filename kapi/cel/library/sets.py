"""sets.contains, sets.equivalent, sets.intersects (upstream: cel-go ``ext/sets.go``)."""

from __future__ import annotations

from typing import Any

from kapi.cel.functions import declare as d
from kapi.cel.values import equal


def _split(items: Any) -> tuple[set[Any], list[Any]]:
    """Scalars, which are looked up, and the rest, which is compared."""
    scalars = {(item.__class__ is bool, item) for item in items if isinstance(item, (str, int, float))}
    return scalars, [item for item in items if not isinstance(item, (str, int, float))]


def _among(value: Any, scalars: set[Any], rest: list[Any]) -> bool:
    if isinstance(value, (str, int, float)):
        return (value.__class__ is bool, value) in scalars
    return any(equal(value, item) for item in rest)


def contains(items: Any, wanted: Any) -> bool:
    """Whether every wanted value is among the items."""
    scalars, rest = _split(items)
    return all(_among(value, scalars, rest) for value in wanted)


def intersects(one: Any, other: Any) -> bool:
    scalars, rest = _split(one)
    return any(_among(value, scalars, rest) for value in other)


SETS = [
    d("sets.contains", "list_sets_contains_list", "(list(A), list(A)) bool", contains),
    d(
        "sets.equivalent",
        "list_sets_equivalent_list",
        "(list(A), list(A)) bool",
        lambda a, b: contains(a, b) and contains(b, a),
    ),
    d("sets.intersects", "list_sets_intersects_list", "(list(A), list(A)) bool", intersects),
]
