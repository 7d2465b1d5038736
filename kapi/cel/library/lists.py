"""Lists (upstream: apiserver ``cel/library/lists.go``, cel-go ``ext/lists.go`` version 3)."""

from __future__ import annotations

from typing import Any

from kapi.cel.errors import EvaluationError
from kapi.cel.functions import Overload
from kapi.cel.functions import declare as d
from kapi.cel.standard import check_int, check_uint
from kapi.cel.values import Duration, Members, Timestamp, Uint, compare, equal, type_of


def is_sorted(items: Any) -> bool:
    return all(compare(items[i], items[i + 1]) <= 0 for i in range(len(items) - 1))


def _sum(zero: Any) -> Any:
    def total(items: Any) -> Any:
        if isinstance(zero, Duration):
            return Duration(sum(item.nanos for item in items))
        if isinstance(zero, Uint):
            return check_uint(sum(int(item) for item in items))
        if isinstance(zero, int):
            return check_int(sum(items))
        return float(sum(items))

    return total


def _best(name: str, sign: int) -> Any:
    def best(items: Any) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        found = items[0]
        for item in items[1:]:
            if compare(item, found) * sign > 0:
                found = item
        return found

    return best


def index_of(items: Any, value: Any) -> int:
    return next((i for i, item in enumerate(items) if equal(item, value)), -1)


def last_index_of(items: Any, value: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if equal(items[i], value)), -1)


def list_slice(items: Any, start: int, end: int) -> Any:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def flatten(items: Any, depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    result: list[Any] = []
    for item in items:
        if isinstance(item, (list, tuple)) and depth > 0:
            result.extend(flatten(item, depth - 1))
        else:
            result.append(item)
        if len(result) > 2_000_000:
            raise EvaluationError("list is too large")
    return result


def sort_by(items: Any, keys: Any) -> list[Any]:
    if len(items) != len(keys):
        raise EvaluationError("keys and list must be of the same length")
    if keys:
        kind = type_of(keys[0])
        if kind.kind not in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
            raise EvaluationError("list elements must be comparable")
        if any(type_of(key) != kind for key in keys):
            raise EvaluationError("list elements must have the same type")
    plain = [key.nanos if isinstance(key, (Duration, Timestamp)) else key for key in keys]
    return [items[i] for i in sorted(range(len(plain)), key=plain.__getitem__)]


def distinct(frame: Any, items: Any) -> list[Any]:
    result: list[Any] = []
    seen = Members(frame=frame)
    for item in items:
        if item not in seen:
            seen.add(item)
            result.append(item)
    return result


distinct.wants_frame = True  # type: ignore[attr-defined]


def number_range(count: int) -> list[int]:
    return list(range(count))


def _typed() -> list[Overload]:
    found: list[Overload] = []
    for name in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
        found.append(d("isSorted", f"list_{name}_is_sorted_bool", f"list({name}).() bool", is_sorted))
        found.append(d("max", f"list_{name}_max_{name}", f"list({name}).() {name}", _best("max", 1)))
        found.append(d("min", f"list_{name}_min_{name}", f"list({name}).() {name}", _best("min", -1)))
    zeros: dict[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
    for name, zero in zeros.items():
        found.append(d("sum", f"list_{name}_sum_{name}", f"list({name}).() {name}", _sum(zero)))
    for name in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
        found.append(
            d("sort", f"list_{name}_sort", f"list({name}).() list({name})", lambda items: sort_by(items, items))
        )
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
    d("lists.range", "lists_range", "(int) list(int)", number_range),
    d("reverse", "list_reverse", "list(A).() list(A)", lambda items: list(items)[::-1]),
    d("distinct", "list_distinct", "list(A).() list(A)", distinct),
]
