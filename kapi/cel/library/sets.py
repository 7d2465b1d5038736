"""sets.contains, sets.equivalent, sets.intersects (upstream: cel-go ``ext/sets.go``)."""

from __future__ import annotations

from typing import Any

from kapi.cel.functions import declare as d
from kapi.cel.values import equal


def contains(items: Any, wanted: Any) -> bool:
    """Whether every wanted value is among the items."""
    texts = {item for item in items if item.__class__ is str}
    rest = [item for item in items if item.__class__ is not str]
    return all(
        value in texts if value.__class__ is str else any(equal(value, item) for item in rest) for value in wanted
    )


def intersects(one: Any, other: Any) -> bool:
    return any(contains(one, [value]) for value in other) if len(other) < 8 else _intersects(one, other)


def _intersects(one: Any, other: Any) -> bool:
    texts = {item for item in one if item.__class__ is str}
    rest = [item for item in one if item.__class__ is not str]
    return any(
        value in texts if value.__class__ is str else any(equal(value, item) for item in rest) for value in other
    )


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
