"""The runtime cost of calls (upstream: cel-go ``interpreter/runtimecost.go``, apiserver ``cel/library/cost.go``).

The cost of a call of which an operand failed is computed as well: a Failed stands for the operand, with the size 1.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.cel.errors import Cancelled
from kapi.cel.functions import Overload
from kapi.cel.types import Value
from kapi.cel.values import go_type
from kapi.machinery.each import elements, entries

TRAVERSAL = 0.1  # cost per character of a text
REGEX = 0.25  # cost per character of a pattern
AUTHORIZER_CHECK = 350_000  # cost of an authorization check
COMPARISONS = 2.0  # cost per pair of elements of a list that is sorted, or made distinct
NEW_LIST = 11  # cost of a call that makes a list


class CallCost:
    """The cost of a call: ``before`` by its arguments, ``after`` also by its result; ``growth`` is the allocation."""

    __slots__ = ("before", "after", "growth", "grows")

    def __init__(
        self,
        before: Callable[[list[Value]], int],
        after: Callable[[list[Value], Value], int] | None = None,
        growth: Callable[[list[Value]], int] | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self.grows = growth is not None
        self.growth: Callable[[list[Value]], int] = growth or (lambda values: 0)


def units(value: object) -> int:
    """The size of a value: characters, bytes or elements; 1 for a value without a size."""
    if isinstance(value, (str, bytes, list, tuple, dict)):
        return len(value)
    measure = getattr(value, "cel_size", None)
    return measure() if measure is not None else 1


def ceil_tenth(count: int, times: int = 1) -> int:
    return -(-count * times // 10)


def _first(times: int = 1) -> Callable[[list[Value]], int]:
    return lambda values: ceil_tenth(units(values[0]), times)


def _smaller(values: list[Value]) -> int:
    return ceil_tenth(min(units(values[0]), units(values[1])))


def _pattern(values: list[Value]) -> int:
    return ceil_tenth(1 + units(values[0])) * -(-units(values[1]) // 4)


def _contains(values: list[Value]) -> int:
    return ceil_tenth(units(values[0])) * ceil_tenth(units(values[1]))


def traversal(value: object) -> int:
    """The cost of traversing a value."""
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, (list, tuple)):
        return sum(traversal(item) for item in elements(value))
    if isinstance(value, dict):
        return sum(traversal(key) + traversal(item) for key, item in entries(value))
    return 1


def _selector(values: list[Value]) -> int:
    length = units(values[1])
    return 10 + ceil_tenth(length) + -(-length // 2) * 50


def _replaced(values: list[Value]) -> int:
    text, old, new = values[0], values[1], values[2]
    if len(new) <= len(old):
        return len(text)
    return len(text) + (text.count(old) if old else len(text) + 1) * (len(new) - len(old))


def _joined(values: list[Value]) -> int:
    separator = len(values[1]) if len(values) > 1 else 0
    return sum(len(item) + separator for item in elements(values[0]) if isinstance(item, str))


def _validated(values: list[Value]) -> int:
    size = getattr(values[0], "regex_size", None)
    return 1 if size is None else ceil_tenth(1 + units(values[1])) * -(-size // 4)


def _contains_ip(text: bool) -> Callable[[list[Value]], int]:
    return lambda values: ceil_tenth(2 * units(values[0])) + (ceil_tenth(units(values[1])) if text else 0)


def _contains_cidr(text: bool) -> Callable[[list[Value]], int]:
    def cost(values: list[Value]) -> int:
        own = units(values[0])
        return ceil_tenth(2 * own) + ceil_tenth(own) + 1 + (ceil_tenth(units(values[1])) if text else 0)

    return cost


def _sets(times: int) -> CallCost:
    return _listed(lambda values, result: 1 + units(values[0]) * units(values[1]) * times)


def _listed(after: Callable[[list[Value], Value], int], growth: Callable[[list[Value]], int] | None = None) -> CallCost:
    """The cost of calls for which upstream counts comparisons of all elements.  Here they are linear, and need not end early."""
    return CallCost(lambda values: 0, after, growth)


def _pairs(items: Value) -> int:
    """The cost of comparing each element of a list with each.  Without a list upstream's computation ends the evaluation."""
    if not isinstance(items, (list, tuple)):
        missing = "Contains" if isinstance(items, (str, bytes, int, float)) and not isinstance(items, bool) else "Add"
        raise Cancelled(
            f"internal error: interface conversion: {go_type(items)} is not traits.Lister: missing method {missing}"
        )
    factor = COMPARISONS + (TRAVERSAL if items and isinstance(items[0], (str, bytes)) else 0)
    return int(len(items) ** 2 * factor) + NEW_LIST


def _flattened(values: list[Value], result: Value) -> int:
    if len(values) > 1 and not isinstance(values[1], int):
        raise Cancelled(f"internal error: interface conversion: ref.Val is {go_type(values[1])}, not types.Int")
    return units(values[0]) * (values[1] if len(values) > 1 else 1) + NEW_LIST


def _made(values: list[Value], result: Value) -> int:
    return units(result) + NEW_LIST


_NEW_LIST = _listed(_made, lambda values: len(values[0]))
_WALK = CallCost(lambda values: traversal(values[0]))
_TENTH = CallCost(_first())
_FIFTH = CallCost(_first(2))

_BY_OVERLOAD: dict[str, CallCost] = {
    "starts_with_string": _TENTH,
    "ends_with_string": _TENTH,
    "string_to_bytes": _TENTH,
    "bytes_to_string": _TENTH,
    "strings_quote": CallCost(_first(), growth=lambda values: 2 * len(values[0])),
    "string_format": CallCost(_first()),
    "in_list": CallCost(lambda values: units(values[1])),
    "matches_string": CallCost(_pattern),
    "contains_string": CallCost(_contains),
    "cidr_ip": CallCost(lambda values: 1),
    "cidr_contains_ip_string": CallCost(_contains_ip(True)),
    "cidr_contains_ip_ip": CallCost(_contains_ip(False)),
    "cidr_contains_cidr_string": CallCost(_contains_cidr(True)),
    "cidr_contains_cidr": CallCost(_contains_cidr(False)),
    "list_slice": _NEW_LIST,
    "list_reverse": _NEW_LIST,
    "list_flatten": _listed(_flattened),
    "list_flatten_int": _listed(_flattened),
    "list_distinct": _listed(lambda values, result: _pairs(values[0])),
    "lists_range": _listed(_made, lambda values: 8 * max(0, int(values[0]))),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
for _kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
    _BY_OVERLOAD[f"list_{_kind}_sort"] = _listed(
        lambda values, result: _pairs(values[0]), lambda values: len(values[0])
    )
    _BY_OVERLOAD[f"list_{_kind}_sortByAssociatedKeys"] = _listed(
        lambda values, result: _pairs(values[1]), lambda values: len(values[0])
    )
for _word in ("less", "less_equals", "greater", "greater_equals"):
    for _kind in ("string", "bytes"):
        _BY_OVERLOAD[f"{_word}_{_kind}"] = CallCost(_smaller)

_BY_FUNCTION: dict[str, CallCost] = {
    "check": CallCost(lambda values: AUTHORIZER_CHECK),
    "fieldSelector": CallCost(_selector),
    "labelSelector": CallCost(_selector),
    "find": CallCost(_pattern),
    "findAll": CallCost(_pattern),
    "replace": CallCost(_first(2), growth=_replaced),
    "split": CallCost(_first(2), growth=lambda values: len(values[0])),
    "join": CallCost(lambda values: 0, after=lambda values, result: ceil_tenth(units(result), 2), growth=_joined),
    "ip.isCanonical": _FIFTH,
    "validate": CallCost(_validated),
    "containsIP": CallCost(_contains_ip(False)),
    "containsCIDR": CallCost(_contains_cidr(False)),
}
for _name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"):
    _BY_FUNCTION[_name] = _WALK
for _name in (
    "url",
    "lowerAscii",
    "upperAscii",
    "substring",
    "trim",
    "jsonpatch.escapeKey",
    "cidr",
    "isIP",
    "isCIDR",
    "ip",
    "quantity",
    "isQuantity",
    "semver",
    "isSemver",
):
    _BY_FUNCTION[_name] = _TENTH


def runtime_cost(overload: Overload, alone: bool = True) -> CallCost | None:
    """The cost of calls of an overload; None for the default of one unit.

    ``alone``: the types of the operands leave no other overload.  Else only the function determines the cost.
    """
    found = _BY_OVERLOAD.get(overload.id) if alone else None
    return found if found is not None else _BY_FUNCTION.get(overload.function)
