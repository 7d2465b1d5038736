"""Closures that read variables, fields of maps and structs, and whether they are present (upstream: cel-go ``attributes.go``)."""

from __future__ import annotations

from collections.abc import Callable

from kapi.cel.errors import Cancelled, EvaluationError
from kapi.cel.frame import Frame, Step
from kapi.cel.syntax import Call, Expr, Ident, Select
from kapi.cel.types import CelType, StructField, Value
from kapi.cel.values import NONE, Failed, Optional

_ATTRIBUTES = frozenset(("_[_]", "_[?_]", "_?._", "_?_:_"))


def certain(type_: CelType | None) -> bool:
    """Whether the type determines the kind of the values."""
    return type_ is not None and type_.kind not in ("dyn", "param", "null", "error", "wrapper", "opaque")


def local(index: int) -> Step:
    def read(frame: Frame) -> Value:
        frame.cost += 1
        return frame.slots[index]

    return read


def accumulated(index: int) -> Step:
    """Reads an accumulator, which may have an error in place of a value."""

    def read(frame: Frame) -> Value:
        frame.cost += 1
        value = frame.slots[index]
        if value.__class__ is Failed:
            raise value.again()
        return value

    return read


class Bound:
    """The value of ``cel.bind`` before it is used for the first time."""

    __slots__ = ("init",)

    def __init__(self, init: Step) -> None:
        self.init = init


def bound(index: int) -> Step:
    """Reads a name of ``cel.bind``, whose value is computed on first use."""
    known = accumulated(index)

    def read(frame: Frame) -> Value:
        value = frame.slots[index]
        if value.__class__ is Bound:
            try:
                frame.slots[index] = value.init(frame)
            except Cancelled:
                raise
            except EvaluationError as error:
                frame.slots[index] = Failed(error)
        return known(frame)

    return read


def constant(value: Value) -> Step:
    """Reads a value that is known before the evaluation, at no cost."""

    def read(frame: Frame) -> Value:
        return value

    read.known = value  # type: ignore[attr-defined]
    return read


def is_constant(*steps: Step) -> bool:
    return all(hasattr(step, "known") for step in steps)


def value_of(step: Step) -> Value:
    """The value of a constant."""
    return step.known  # type: ignore[attr-defined]


def head(node: Expr) -> int | None:
    """The cost of the start of an attribute (a name, field, element or choice); None for other expressions.

    It is not counted when the attribute is a key or a branch of a choice.  Other attributes count it when one of their fields is
    read.
    """
    if isinstance(node, (Ident, Select)):
        if node.resolved and node.constant is not None:
            return None
        return 0 if isinstance(node, Select) and node.test else 1
    if isinstance(node, Call) and node.function in _ATTRIBUTES:
        return 0 if node.function == "_?_:_" else 1
    return None


def started(operand: Step, node: Expr) -> Step:
    """The operand of a field or an element: one that is no attribute costs the start of one more, also when it fails."""
    if head(node) is not None:
        return operand

    def read(frame: Frame) -> Value:
        try:
            return operand(frame)
        finally:
            frame.cost += 1

    return read


def variable(name: str) -> Step:
    def read(frame: Frame) -> Value:
        frame.cost += 1
        try:
            value = frame.globals[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None
        return value(frame) if value.__class__ is Lazy else value

    return read


class Lazy:
    """A variable that is computed on first use; ``compute(frame)`` adds its cost to the frame."""

    __slots__ = ("compute", "state")

    def __init__(self, compute: Callable[[Frame], Value]) -> None:
        self.compute = compute
        self.state: tuple[Value] | EvaluationError | None = None

    def __call__(self, frame: Frame) -> Value:
        if self.state is None:
            try:
                self.state = (self.compute(frame),)
            except Cancelled:
                raise
            except EvaluationError as error:
                self.state = error
        if isinstance(self.state, EvaluationError):
            raise self.state
        return self.state[0]


def get_field(value: object, name: str) -> Value:
    """A field or entry by name.  Raises EvaluationError."""
    if isinstance(value, dict):
        try:
            return value[name]
        except KeyError:
            raise EvaluationError(f"no such key: {name}") from None
    raise _without_fields(value, name)


def _without_fields(value: object, name: str) -> EvaluationError:
    """The error for a field of a value that has none (upstream: ``refQualify``)."""
    if isinstance(value, (list, tuple)):
        return EvaluationError("unsupported index type 'string' in list")
    return EvaluationError(f"no such key: {name}")


# fields, of what ``started`` returns


def plain_field(operand: Step, name: str) -> Step:
    def read(frame: Frame) -> Value:
        value = operand(frame)
        frame.cost += 1
        if value.__class__ is Optional:
            inner = value.value() if value.present else None
            if not value.present or isinstance(inner, dict) and name not in inner:
                frame.cost -= 1
                return NONE
            return _member(inner, name, None)
        return get_field(value, name)

    return read


def struct_field(operand: Step, field: StructField) -> Step:
    name, convert, null_is_absent = field.name, field.convert, field.null_is_absent

    def read(frame: Frame) -> Value:
        value = operand(frame)
        frame.cost += 1
        found = get_field(value, name)
        if found is None and null_is_absent:
            raise EvaluationError(f"no such key: {name}")
        return found if convert is None else convert(found)

    return read


def _member(value: object, name: str, convert: Callable[[Value], Value] | None) -> Value:
    found = get_field(value, name)
    if convert is not None:
        found = convert(found)
    return found if found.__class__ is Optional else Optional(found)


def optional_field(operand: Step, field: StructField) -> Step:
    """Reads an optional field.  For an absent field only the cost of ``operand`` counts."""
    name, convert, null_is_absent = field.name, field.convert, field.null_is_absent

    def read(frame: Frame) -> Value:
        value = operand(frame)
        if value.__class__ is Optional:
            if not value.present:
                return NONE
            value = value.value()
        if not isinstance(value, dict):
            if isinstance(value, (list, tuple)):
                raise _without_fields(value, name)
            return NONE
        if name not in value or null_is_absent and value[name] is None:
            return NONE
        frame.cost += 1
        return _member(value, name, convert)

    return read


def present(operand: Step, name: str, null_is_absent: bool = False) -> Step:
    def test(frame: Frame) -> Value:
        try:
            value = operand(frame)
        except EvaluationError:
            frame.cost -= 1
            raise
        if value.__class__ is Optional:
            if not value.present:
                return False
            value = value.value()
        if isinstance(value, dict):
            return name in value and not (null_is_absent and value[name] is None)
        if isinstance(value, (list, tuple)):
            raise _without_fields(value, name)
        return False

    return test


# calls


def unbound(name: str) -> Step:
    def fail(frame: Frame) -> Value:
        raise EvaluationError(f"unbound function: {name}")

    return fail
