"""Lists, and lists as sets (upstream: apiserver ``cel/library/lists.go``, cel-go ``ext/lists.go`` version 3, ``ext/sets.go``)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice, pairwise

from kapi.cel.arithmetic import Uint, check_int, check_uint
from kapi.cel.errors import EvaluationError
from kapi.cel.frame import Frame
from kapi.cel.functions import Overload, walks
from kapi.cel.functions import declare as d
from kapi.cel.times import Duration, Timestamp
from kapi.cel.types import Value
from kapi.cel.values import Members, compare, equal, type_of

_MAX_SORTED_AT_ONCE = 1000  # elements that are sorted at once
_MAX_FLATTENED = 2_000_000  # elements


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
    d("sets.equivalent", "list_sets_equivalent_list", "(list(A), list(A)) bool", equivalent),
    d("sets.intersects", "list_sets_intersects_list", "(list(A), list(A)) bool", intersects),
]


@walks
def is_sorted(frame: Frame, items: Value) -> bool:
    return all(compare(one, other) <= 0 for one, other in frame.steps(pairwise(items)))


def _sum(zero: Value) -> Value:
    @walks
    def total(frame: Frame, items: Value) -> Value:
        if isinstance(zero, Duration):
            return Duration(sum(item.nanos for item in frame.steps(items)))
        if isinstance(zero, Uint):
            return check_uint(sum(int(item) for item in frame.steps(items)))
        if isinstance(zero, int):
            return check_int(sum(frame.steps(items)))
        return float(sum(frame.steps(items)))

    return total


def _extreme(name: str, sign: int) -> Value:
    @walks
    def extreme(frame: Frame, items: Value) -> Value:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        found = items[0]
        for item in frame.steps(islice(items, 1, None)):
            if compare(item, found) * sign > 0:
                found = item
        return found

    return extreme


@walks
def index_of(frame: Frame, items: Value, value: Value) -> int:
    return next((i for i, item in enumerate(frame.steps(items)) if equal(item, value)), -1)


@walks
def last_index_of(frame: Frame, items: Value, value: Value) -> int:
    return next((i for i in frame.steps(range(len(items) - 1, -1, -1)) if equal(items[i], value)), -1)


def list_slice(items: Value, start: int, end: int) -> Value:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


@walks
def flatten(frame: Frame, items: Value, depth: int = 1) -> list[Value]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    result: list[Value] = []
    for item in frame.steps(items):
        if isinstance(item, (list, tuple)) and depth > 0:
            result.extend(flatten(frame, item, depth - 1))
        else:
            result.append(item)
        if len(result) > _MAX_FLATTENED:
            raise EvaluationError("list is too large")
    return result


@walks
def sort_by(frame: Frame, items: Value, keys: Value) -> list[Value]:
    if len(items) != len(keys):
        raise EvaluationError("keys and list must be of the same length")
    if keys:
        kind = type_of(keys[0])
        if kind.kind not in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
            raise EvaluationError("list elements must be comparable")
        if any(type_of(key) != kind for key in frame.steps(keys)):
            raise EvaluationError("list elements must have the same type")
    plain = [key.nanos if isinstance(key, (Duration, Timestamp)) else key for key in frame.steps(keys)]
    return [items[place] for place in frame.steps(_order(frame, plain))]


def _order(frame: Frame, keys: list[Value]) -> Iterator[int]:
    """The indices of the keys in ascending order; the sort is stable."""
    parts = []
    for start in range(0, len(keys), _MAX_SORTED_AT_ONCE):
        frame.tick()
        parts.append(sorted(range(start, min(start + _MAX_SORTED_AT_ONCE, len(keys))), key=keys.__getitem__))
    return iter(parts[0]) if len(parts) == 1 else merge(*parts, key=keys.__getitem__)


@walks
def distinct(frame: Frame, items: Value) -> list[Value]:
    result: list[Value] = []
    seen = Members(frame=frame)
    for item in frame.steps(items):
        if item not in seen:
            seen.add(item)
            result.append(item)
    return result


@walks
def _sort(frame: Frame, items: Value) -> list[Value]:
    return sort_by(frame, items, items)


def _typed() -> list[Overload]:
    found: list[Overload] = []
    for name in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
        found.append(d("isSorted", f"list_{name}_is_sorted_bool", f"list({name}).() bool", is_sorted))
        found.append(d("max", f"list_{name}_max_{name}", f"list({name}).() {name}", _extreme("max", 1)))
        found.append(d("min", f"list_{name}_min_{name}", f"list({name}).() {name}", _extreme("min", -1)))
    zeros: dict[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
    for name, zero in zeros.items():
        found.append(d("sum", f"list_{name}_sum_{name}", f"list({name}).() {name}", _sum(zero)))
    for name in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
        found.append(d("sort", f"list_{name}_sort", f"list({name}).() list({name})", _sort))
        found.append(
            d("@sortByAssociatedKeys", f"list_{name}_sortByAssociatedKeys", f"list(A).(list({name})) list(A)", sort_by)
        )
    return found


LISTS = [
    *_typed(),
    d("indexOf", "list_a_index_of_int", "list(A).(A) int", index_of),
    d("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) int", last_index_of),
    d("slice", "list_slice", "list(A).(int, int) list(A)", list_slice),
    d("flatten", "list_flatten", "list(list(A)).() list(A)", flatten),
    d("flatten", "list_flatten_int", "list(dyn).(int) list(dyn)", flatten),
    d("lists.range", "lists_range", "(int) list(int)", lambda count: list(range(count))),
    d("reverse", "list_reverse", "list(A).() list(A)", lambda items: list(items)[::-1]),
    d("distinct", "list_distinct", "list(A).() list(A)", distinct),
]
