"""Closures of operators: logic, equality, indices, sums, and the steps of comprehensions that build in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kapi.cel.checker import Scope
from kapi.cel.cost import CallCost, ceil_tenth, units
from kapi.cel.errors import Cancelled, EvaluationError, TimeExceeded
from kapi.cel.frame import MAX_TIMED_COST, Frame, Step
from kapi.cel.overload_calls import direct, dispatched, evaluated, unfit
from kapi.cel.reading import accumulated, certain, head, is_constant, optional_field, started
from kapi.cel.syntax import Call, Expr, Literal
from kapi.cel.types import CelType, StructField, StructType, Value
from kapi.cel.values import (
    NONE,
    Failed,
    MapList,
    Members,
    Opaque,
    Optional,
    SetList,
    equal,
    format_double,
    key_text,
    no_overload,
    to_key,
    type_of,
)
from kapi.machinery.each import elements, entries


class Compiles(Protocol):
    """The compiler's interface for the operands of operators."""

    scope: Scope

    def visit(self, node: Expr) -> Step: ...

    def named(self, target: CelType | None, name: str) -> StructField: ...


def _logic(compiler: Compiles, node: Call, deciding: bool) -> Step:
    left, right = compiler.visit(node.args[0]), compiler.visit(node.args[1])
    neutral = not deciding

    def decide(frame: Frame) -> Value:
        failure: EvaluationError | None = None
        try:
            value = left(frame)
            if value is deciding:
                return deciding
            if value is not neutral:
                failure = no_overload()
        except Cancelled:
            raise
        except EvaluationError as error:
            failure = error
        try:
            value = right(frame)
            if value is deciding:
                return deciding
            if value is not neutral:
                failure = failure or no_overload()
        except Cancelled:
            raise
        except EvaluationError as error:
            failure = failure or error
        if failure is None:
            return neutral
        raise failure

    return decide


def _ternary(compiler: Compiles, node: Call) -> Step:
    test, then, other = (compiler.visit(arg) for arg in node.args)
    saved, spared = (head(arg) or 0 for arg in node.args[1:])

    def choose(frame: Frame) -> Value:
        value = test(frame)
        if value is True:
            frame.cost -= saved
            return then(frame)
        if value is False:
            frame.cost -= spared
            return other(frame)
        raise no_overload()

    return choose


def _not_strictly_false(compiler: Compiles, node: Call) -> Step:
    inner = compiler.visit(node.args[0])

    def test(frame: Frame) -> Value:
        try:
            value = inner(frame)
        except Cancelled:
            raise
        except EvaluationError:
            frame.cost += 1
            return True
        frame.cost += 1
        return value is not False

    return test


def _not(compiler: Compiles, node: Call) -> Step:
    inner = compiler.visit(node.args[0])

    def negate(frame: Frame) -> Value:
        try:
            value = inner(frame)
        finally:
            frame.cost += 1
        if value is True:
            return False
        if value is False:
            return True
        raise no_overload()

    return negate


def _equality(compiler: Compiles, node: Call) -> Step:
    operands = compiler.visit(node.args[0]), compiler.visit(node.args[1])
    positive = node.function == "_==_"
    unit = positive and all(_opaque(arg.type) for arg in node.args[:1])
    cost = None if unit else _EQUALITY

    def test(frame: Frame) -> Value:
        one, other = evaluated(frame, operands, cost)
        frame.cost += 1 if unit else _equality_cost(one, other)
        if positive and isinstance(one, Opaque) and other is not None and type_of(one) != type_of(other):
            raise no_overload()
        if isinstance(one, (list, tuple, dict)):
            frame.tick()
            if frame.deadline and len(one) > MAX_TIMED_COST:
                raise TimeExceeded()
        try:
            return equal(one, other) is positive
        except RecursionError:
            raise EvaluationError("values are nested too deeply") from None

    return test


def _opaque(type_: CelType | None) -> bool:
    return type_ is not None and "." in type_.name and not isinstance(type_, StructType)


def _equality_cost(one: object, other: object) -> int:
    smaller = min(_units(one), _units(other))
    return -(-smaller // 10)


_EQUALITY = CallCost(lambda values: _equality_cost(*values))


def _units(value: Value) -> int:
    if value.__class__ is Optional and value.present:
        value = value.value()
    return len(value) if isinstance(value, (str, bytes, list, tuple, dict)) else 1


def _optional_element(value: object, at: object) -> Optional:
    """The element as an optional; ``optional.none()`` when it does not exist."""
    try:
        found = index(value, at)
    except _Absent:
        return NONE
    return found if found.__class__ is Optional else Optional(found)


def _operand_and_key(compiler: Compiles, node: Call) -> Callable[[Frame], tuple[Value, Value]]:
    """Evaluates an indexed value and the index; adds the cost of the access, also when one of them fails."""
    operand, key = started(compiler.visit(node.args[0]), node.args[0]), compiler.visit(node.args[1])
    cost = 1 - (head(node.args[1]) or 0)

    def both(frame: Frame) -> tuple[Value, Value]:
        value = operand(frame)
        try:
            return value, key(frame)
        finally:
            frame.cost += cost

    return both


def _index(compiler: Compiles, node: Call) -> Step:
    both = _operand_and_key(compiler, node)

    def read(frame: Frame) -> Value:
        value, at = both(frame)
        if value.__class__ is Optional:
            found = _optional_element(value.value(), at) if value.present else NONE
            frame.cost -= not found.present
            return found
        return index(value, at)

    return read


def _optional_index(compiler: Compiles, node: Call) -> Step:
    both = _operand_and_key(compiler, node)

    def read(frame: Frame) -> Value:
        value, at = both(frame)
        if value.__class__ is Optional:
            if not value.present:
                frame.cost -= 1
                return NONE
            value = value.value()
        frame.cost -= 1
        found = _optional_element(value, at)
        frame.cost += found.present
        return found

    return read


def _optional_select(compiler: Compiles, node: Call) -> Step:
    field = node.args[1]
    assert isinstance(field, Literal)
    known = compiler.named(node.args[0].type, str(field.value))
    return optional_field(started(compiler.visit(node.args[0]), node.args[0]), known)


def otherwise(args: list[Step], unwrapped: bool) -> Step:
    """``or`` and ``orValue``: the alternative is evaluated only for an absent value."""
    operand, instead = args

    def choose(frame: Frame) -> Value:
        value = operand(frame)
        if value.__class__ is not Optional:
            return value
        if value.present:
            return value.value() if unwrapped else value
        return instead(frame)

    return choose


class _Absent(EvaluationError):
    """The index or key does not exist."""


def index(value: object, at: object) -> Value:
    """An element of a list or entry of a map.  Raises EvaluationError."""
    if isinstance(value, (list, tuple)):
        if at.__class__ is bool or not isinstance(at, (int, float)):
            raise EvaluationError(f"unsupported index type '{type_of(at).name}' in list")
        if isinstance(at, float):
            if not at.is_integer():
                raise EvaluationError(f"unsupported index value {format_double(at)} in list")
            at = int(at)
        if not 0 <= at < len(value):
            raise _Absent(f"index out of bounds: {key_text(at)}")
        return value[at]
    if isinstance(value, dict):
        try:
            if isinstance(at, float):
                at = int(at) if at == at and abs(at) < 2**64 and at == int(at) else at
            found = value[to_key(at) if not isinstance(at, float) else at]
        except KeyError:
            raise _Absent(f"no such key: {key_text(at)}") from None
        return found
    raise _Absent(f"no such key: {key_text(at)}")


def _add(compiler: Compiles, node: Call) -> Step:
    """``+`` of any types: integers directly, lists by the list type of their schema."""
    overloads = node.overloads or compiler.scope.functions["_+_"]
    nodes = node.args
    if len(overloads) == 1 and overloads[0].id == "add_int64" and all(certain(item.type) for item in nodes):
        return direct([compiler.visit(item) for item in nodes], overloads[0])
    general = dispatched([_held(index) for index in (0, 1)], overloads)
    operands = compiler.visit(nodes[0]), compiler.visit(nodes[1])
    alone = len(overloads) == 1
    cost = _CONCATENATION if alone and overloads[0].id in ("add_string", "add_bytes") else None

    def add(frame: Frame) -> Value:
        one, other = evaluated(frame, operands, cost)
        if one.__class__ is str and other.__class__ is str or one.__class__ is bytes and other.__class__ is bytes:
            total = len(one) + len(other)
            frame.cost += -(-total // 10) if alone else 1
            frame.grow(total)
            return one + other  # type: ignore[operator]
        if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            frame.cost += 1
            frame.grow(len(one) + len(other))
            return concatenate(one, other)
        return general(_Pair(frame, one, other))  # type: ignore[arg-type]

    return add


_CONCATENATION = CallCost(lambda values: ceil_tenth(units(values[0]) + units(values[1])))


class _Pair:
    """A frame with two evaluated operands, for the general dispatch."""

    __slots__ = ("frame", "values")

    def __init__(self, frame: Frame, one: Value, other: Value) -> None:
        self.frame = frame
        self.values = (one, other)

    @property
    def cost(self) -> int:
        return self.frame.cost

    @cost.setter
    def cost(self, value: int) -> None:
        self.frame.cost = value

    def tick(self) -> None:
        self.frame.tick()

    def grow(self, amount: int) -> None:
        self.frame.grow(amount)


def _held(index: int) -> Step:
    return lambda frame: frame.values[index]  # type: ignore[attr-defined]


def concatenate(one: Value, other: Value) -> Value:
    """``+`` of lists: sets drop duplicates; in associative lists the right element of a key replaces the left one."""
    if isinstance(one, SetList):
        added = SetList(one)
        members = Members(one)
        added.extend(item for item in elements(other) if item not in members)
        return added
    if isinstance(one, MapList):
        places = {one.key_of(item): place for place, item in enumerate(elements(one))}
        merged = list(one)
        for item in elements(other):
            place = places.get(one.key_of(item))
            if place is None:
                merged.append(item)
            else:
                merged[place] = item
        return MapList(merged, one.keys)
    return [*one, *other]


def when(test: Step, then: Step, accu: int) -> Step:
    def step(frame: Frame) -> Value:
        value = test(frame)
        if value is True:
            return then(frame)
        if value is False:
            return frame.slots[accu]
        raise no_overload()

    return step


def appending(element: Step, accu: int) -> Step:
    cost = 1 if is_constant(element) else 11

    def step(frame: Frame) -> Value:
        frame.cost += 1
        items = frame.slots[accu]
        try:
            value = element(frame)
        except EvaluationError as error:
            frame.cost += cost
            raise (items.again() if items.__class__ is Failed and not isinstance(error, Cancelled) else error) from None
        frame.cost += cost
        if items.__class__ is Failed:
            return items
        frame.allocated += 1
        items.append(value)
        return items

    return step


def inserting(parts: list[Step], accu: int) -> Step:
    operands, lazy = (accumulated(accu), *parts), len(parts) > 1

    def step(frame: Frame) -> Value:
        mapping, *added = values = evaluated(frame, operands, None, lazy)
        frame.cost += 1
        if len(added) == 2:
            new = {to_key(added[0]): added[1]}
        elif isinstance(added[0], dict):
            new = added[0]
        else:
            raise unfit("cel.@mapInsert", values)
        for key, value in entries(new):
            if key in mapping:
                raise EvaluationError(f"insert failed: key {key_text(key)} already exists")
            mapping[key] = value
        return mapping

    return step


SPECIAL: dict[str, Callable[[Compiles, Call], Step]] = {
    "_&&_": lambda compiler, node: _logic(compiler, node, deciding=False),
    "_||_": lambda compiler, node: _logic(compiler, node, deciding=True),
    "_?_:_": _ternary,
    "@not_strictly_false": _not_strictly_false,
    "!_": _not,
    "_==_": _equality,
    "_!=_": _equality,
    "_[_]": _index,
    "_[?_]": _optional_index,
    "_?._": _optional_select,
    "_+_": _add,
}
