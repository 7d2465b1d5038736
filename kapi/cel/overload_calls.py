"""Closures that call a function: a known overload, or the one that accepts the values."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.cel.cost import CallCost, runtime_cost
from kapi.cel.errors import Cancelled, EvaluationError, TimeExceeded
from kapi.cel.frame import MAX_TIMED_COST, Frame, Step
from kapi.cel.functions import Overload
from kapi.cel.reading import constant
from kapi.cel.types import Value
from kapi.cel.values import Failed, no_overload, type_of
from kapi.machinery.each import elements

_MAX_FOLDING_COST = 1_000_000
_PRIMITIVE = (str, int, float)  # with booleans
_ORDERED = frozenset(("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"))
_NUMBERS = frozenset(("int", "uint", "double"))
#: functions whose error names no types: the kinds of the first operand that have the function at all; None for all kinds
_OPERANDS: dict[str, frozenset[str] | None] = {
    "_+_": frozenset(("int", "uint", "double", "string", "bytes", "list", "timestamp", "duration")),
    "_-_": frozenset(("int", "uint", "double", "timestamp", "duration")),
    "_*_": _NUMBERS,
    "_/_": _NUMBERS,
    "_%_": frozenset(("int", "uint")),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ORDERED),
    "size": frozenset(("string", "bytes", "list", "map")),
    "sort": frozenset(("list",)),
    "@sortByAssociatedKeys": frozenset(("list",)),
    **dict.fromkeys(("@in", "-_", "type", "dyn", "matches", "find", "findAll", "contains", "startsWith", "endsWith")),
}
_RECEIVERS = frozenset(("string", "timestamp", "duration"))  # they are asked for a method of the name
_SINGLE = frozenset(_OPERANDS) - {"contains", "startsWith", "endsWith"}  # one implementation for all overloads
_BY_LIST = frozenset(("string_format", "authorizer_group"))  # upstream's implementations get a list of two operands
_SORTS = ("sort", "@sortByAssociatedKeys")  # it finds out itself what it cannot compare


def direct(args: list[Step], overload: Overload) -> Step:
    impl = overload.impl
    assert impl is not None
    cost = runtime_cost(overload)
    if len(args) == 1 and cost is None and not getattr(impl, "wants_frame", False):
        only = args[0]

        def unary(frame: Frame) -> Value:
            try:
                value = only(frame)
            finally:
                frame.cost += 1
            try:
                return impl(value)
            except (TypeError, AttributeError):
                raise unfit(overload.function, [value]) from None

        return unary
    lazy = len(args) > 2 or overload.id in _BY_LIST

    def invoke(frame: Frame) -> Value:
        return apply(frame, overload, cost, evaluated(frame, args, cost, lazy))

    return invoke


def evaluated(frame: Frame, args: Sequence[Step], cost: CallCost | None, lazy: bool = False) -> list[Value]:
    """The operands of a call.  Raises EvaluationError when one fails.

    The cost of the call is added then, if all operands were evaluated.  ``lazy``: none is evaluated after one that failed, as in
    upstream's calls by a list of operands.
    """
    values: list[Value] = []
    try:
        for arg in args:
            values.append(arg(frame))
    except EvaluationError as error:
        raise _failed(frame, args, values, error, cost, lazy) from None
    return values


def _failed(
    frame: Frame, args: Sequence[Step], values: list[Value], error: EvaluationError, cost: CallCost | None, lazy: bool
) -> EvaluationError:
    """The error of a call whose next operand after ``values`` failed."""
    if isinstance(error, Cancelled):
        return error
    values.append(Failed(error))
    while not lazy and len(values) < len(args):
        try:
            values.append(args[len(values)](frame))
        except Cancelled as cancelled:
            return cancelled
        except EvaluationError as other:
            values.append(Failed(other))
    if len(values) == len(args):
        _count(frame, cost, values, error)
    return error


def _count(frame: Frame, cost: CallCost | None, values: list[Value], error: EvaluationError) -> None:
    if cost is None:
        frame.cost += 1
        return
    frame.cost += cost.before(values)
    if cost.after is not None:
        frame.cost += cost.after(values, Failed(error))


def unfit(function: str, values: Sequence[Value]) -> EvaluationError:
    """The error of operands that no overload accepts (upstream: ``decls.go``; for operators ``evalBinary``)."""
    if function == "flatten":
        return no_overload(f"{type_of(values[0]).name}.flatten()")
    if function not in _OPERANDS:
        return EvaluationError(f"no such overload: {function}({', '.join(type_of(value).name for value in values)})")
    first, given = _OPERANDS[function], type_of(values[0]).kind
    return no_overload() if first is None or given in first or given in _RECEIVERS else no_overload(function)


def apply(frame: Frame, overload: Overload, cost: CallCost | None, values: list[Value]) -> Value:
    """Calls an implementation; adds its cost and allocation to the frame."""
    impl = overload.impl
    assert impl is not None
    if cost is not None:
        before = cost.before(values)
        if before:
            frame.cost += before
            frame.tick()
            if frame.deadline and before > MAX_TIMED_COST:
                raise TimeExceeded()  # one call may take longer than the time limit
        if cost.grows:
            frame.grow(cost.growth(values))
    else:
        frame.cost += 1
    try:
        result = impl(frame, *values) if getattr(impl, "wants_frame", False) else impl(*values)
    except EvaluationError as error:
        raise _unsuccessful(frame, cost, values, error) from None
    except (TypeError, AttributeError):
        raise _unsuccessful(frame, cost, values, unfit(overload.function, values)) from None
    except (ArithmeticError, ValueError, RecursionError, MemoryError) as error:
        shown = EvaluationError(str(error) or error.__class__.__name__)
        raise _unsuccessful(frame, cost, values, shown) from None
    if cost is not None and cost.after is not None:
        frame.cost += cost.after(values, result)
        frame.tick()
    return result


def _unsuccessful(frame: Frame, cost: CallCost | None, values: list[Value], error: EvaluationError) -> EvaluationError:
    """The error of an implementation; adds the part of the cost that is known after the call."""
    if cost is not None and cost.after is not None and not isinstance(error, Cancelled):
        frame.cost += cost.after(values, Failed(error))
    return error


def folded(step: Step) -> Step:
    """The value of a step that depends on no variable, computed once.  If this fails, the step stays unchanged."""
    try:
        return constant(step(Frame({}, 0, _MAX_FOLDING_COST, 0.0)))
    except EvaluationError:
        return step


def member(item: Step, known: Sequence[Value]) -> Step | None:
    """``in`` for a constant list of texts, numbers and booleans, at no cost (upstream: ``evalSetMembership``)."""
    if not known:
        return constant(False)
    if not all(isinstance(value, _PRIMITIVE) for value in known):
        return None
    values = frozenset((value.__class__ is bool, value) for value in elements(known))

    def test(frame: Frame) -> Value:
        value = item(frame)
        return isinstance(value, _PRIMITIVE) and (value.__class__ is bool, value) in values

    return test


def dispatched(args: list[Step], overloads: list[Overload]) -> Step:
    alone = len(overloads) == 1
    costs = [runtime_cost(item, alone) for item in overloads]
    pairs = list(zip(overloads, costs, strict=False))
    cost = costs[0] if costs else None
    name = overloads[0].function if overloads else ""
    lazy = len(args) > 2 or not alone and name not in _SINGLE or alone and overloads[0].id in _BY_LIST

    def invoke(frame: Frame) -> Value:
        values = evaluated(frame, args, cost, lazy)
        fixed = tuple(values)
        for overload, cost_ in pairs:
            if overload.accepts(fixed):
                return apply(frame, overload, cost_, values)
        if name in _SORTS and isinstance(values[0], (list, tuple)):
            return apply(frame, overloads[0], cost, values)
        mismatch = unfit(name, values)
        _count(frame, cost, values, mismatch)
        raise mismatch

    return invoke
