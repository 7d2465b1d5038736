"""Closures that call a function: a known overload, or the one that accepts the values."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.cel.cost import runtime_cost
from kapi.cel.errors import EvaluationError, TimeExceeded
from kapi.cel.frame import MAX_TIMED_COST, Frame, Step
from kapi.cel.functions import Overload
from kapi.cel.reading import constant
from kapi.cel.types import Value
from kapi.cel.values import no_overload
from kapi.machinery.each import elements

_MAX_FOLDING_COST = 1_000_000
_PRIMITIVE = (str, int, float)  # with booleans


def direct(args: list[Step], overload: Overload) -> Step:
    impl = overload.impl
    assert impl is not None
    cost = runtime_cost(overload)
    if len(args) == 1 and cost is None and not getattr(impl, "wants_frame", False):
        only = args[0]

        def unary(frame: Frame) -> Value:
            value = only(frame)
            frame.cost += 1
            try:
                return impl(value)
            except (TypeError, AttributeError):
                raise no_overload() from None

        return unary

    def invoke(frame: Frame) -> Value:
        values = [arg(frame) for arg in args]
        return apply(frame, overload, cost, values)

    return invoke


def apply(frame: Frame, overload: Overload, cost: Value, values: list[Value]) -> Value:
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
    except EvaluationError:
        raise
    except (TypeError, AttributeError):
        raise no_overload() from None
    except (ArithmeticError, ValueError, RecursionError, MemoryError) as error:
        raise EvaluationError(str(error) or error.__class__.__name__) from None
    if cost is not None and cost.after is not None:
        frame.cost += cost.after(values, result)
        frame.tick()
    return result


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
    costs = [runtime_cost(item) for item in overloads]
    pairs = list(zip(overloads, costs, strict=False))

    def invoke(frame: Frame) -> Value:
        values = [arg(frame) for arg in args]
        fixed = tuple(values)
        for overload, cost in pairs:
            if overload.accepts(fixed):
                return apply(frame, overload, cost, values)
        raise no_overload()

    return invoke


class Failed:
    """An error in an accumulator of ``all`` or ``exists``: a later element may still decide the result."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error

    def throw(self) -> Value:
        raise self.error
