"""Closures that read variables, fields of maps and structs, and whether they are present (upstream: cel-go ``attributes.go``)."""

from __future__ import annotations

from collections.abc import Callable

from kapi.cel.errors import Cancelled, EvaluationError
from kapi.cel.frame import Frame, Step
from kapi.cel.types import CelType, StructField, Value
from kapi.cel.values import NONE, Optional


def certain(type_: CelType | None) -> bool:
    """Whether the type determines the kind of the values."""
    return type_ is not None and type_.kind not in ("dyn", "param", "null", "error", "wrapper", "opaque")


def local(index: int) -> Step:
    def read(frame: Frame) -> Value:
        frame.cost += 1
        return frame.slots[index]

    return read


def constant(value: object) -> Step:
    def read(frame: Frame) -> Value:
        frame.cost += 1
        return value

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


def plain_field(operand: Step, name: str) -> Step:
    def read(frame: Frame) -> Value:
        value = operand(frame)
        frame.cost += 1
        if value.__class__ is Optional:
            if not value.present:
                return NONE
            inner = value.value()
            return NONE if isinstance(inner, dict) and name not in inner else _member(inner, name, None)
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
    name, convert, null_is_absent = field.name, field.convert, field.null_is_absent

    def read(frame: Frame) -> Value:
        value = operand(frame)
        frame.cost += 1
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
        return _member(value, name, convert)

    return read


def present(operand: Step, name: str, null_is_absent: bool = False) -> Step:
    def test(frame: Frame) -> Value:
        value = operand(frame)
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
