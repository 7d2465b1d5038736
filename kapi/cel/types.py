"""Types of the language (upstream: cel-go ``common/types/types.go``, ``checker/types.go``, ``checker/mapping.go``).

A CelType is also the value of ``type(x)``.  Struct types have their fields; there is no type provider.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

# A value of the language: None, bool, int, Uint, float, str, bytes, list, dict, or an object of a class in kapi.cel.values.
# It is Any since the checker has checked the types before an evaluation.
Value = Any


class CelType:
    """``kind`` is one of dyn, null, bool, int, uint, double, string, bytes, timestamp, duration, list, map, struct,
    opaque, type, param, error, wrapper.  ``size`` is the number of types in it, with itself."""

    __slots__ = ("kind", "name", "params", "size")

    def __init__(self, kind: str, name: str = "", params: tuple[CelType, ...] = ()) -> None:
        self.kind = kind
        self.name = name or kind
        self.params = params
        self.size: int = 1 + sum(param.size for param in params) if params else 1

    def __str__(self) -> str:
        if self.kind == "type" and not self.params:
            return "type"
        if self.params:
            return f"{self.name}({', '.join(str(param) for param in self.params)})"
        return self.name

    def __repr__(self) -> str:
        return f"<CelType {self}>"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, CelType)
            and self.kind == other.kind
            and self.name == other.name
            and self.params == other.params
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.name))


class StructField(msgspec.Struct, eq=False):
    """A field of a struct type: its name in the object, its type, and how its raw value becomes a CEL value.

    ``null_is_absent``: whether a null counts as a missing field.
    """

    name: str
    type: CelType
    convert: Callable[[Value], Value] | None = None
    null_is_absent: bool = False


class StructType(CelType):
    """A type with fields, by their (escaped) names in expressions.

    ``claims_all``: upstream's provider finds every field of the type, but unknown ones have no type.
    """

    __slots__ = ("fields", "claims_all")

    def __init__(self, name: str, fields: dict[str, StructField] | None = None, claims_all: bool = False) -> None:
        super().__init__("struct", name)
        self.fields = fields if fields is not None else {}
        self.claims_all = claims_all

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, StructType) and self.name == other.name)

    __hash__ = CelType.__hash__


DYN = CelType("dyn")
ANY = CelType("dyn", "any")  # as dyn, but no range of a comprehension
NULL = CelType("null", "null_type")
BOOL = CelType("bool")
INT = CelType("int")
UINT = CelType("uint")
DOUBLE = CelType("double")
STRING = CelType("string")
BYTES = CelType("bytes")
TIMESTAMP = CelType("timestamp", "google.protobuf.Timestamp")
DURATION = CelType("duration", "google.protobuf.Duration")
ERROR = CelType("error", "!error!")
TYPE = CelType("type", "type")

_SHOWN = {"null": "null", "timestamp": "timestamp", "duration": "duration"}


def display(type_: CelType) -> str:
    """The name of a type in messages."""
    if type_.kind in _SHOWN:
        return _SHOWN[type_.kind]
    if type_.kind == "type":
        return f"type({display(type_.params[0])})" if type_.params else "type"
    if type_.params:
        return f"{type_.name}({', '.join(display(param) for param in type_.params)})"
    return type_.name


def list_of(elem: CelType) -> CelType:
    return CelType("list", "list", (elem,))


def map_of(key: CelType, value: CelType) -> CelType:
    return CelType("map", "map", (key, value))


def optional_of(elem: CelType) -> CelType:
    return CelType("opaque", "optional_type", (elem,))


def type_of(elem: CelType) -> CelType:
    return CelType("type", "type", (elem,))


def param(name: str) -> CelType:
    return CelType("param", name)


def is_optional(type_: CelType) -> bool:
    return type_.kind == "opaque" and type_.name == "optional_type"


def _with_params(type_: CelType, params: list[CelType]) -> CelType:
    if all(map(operator.is_, params, type_.params)):
        return type_
    return CelType(type_.kind, type_.name, tuple(params))


class Substitution:
    """Bindings of type parameters made while checking one expression."""

    __slots__ = ("bound", "_next")

    def __init__(self) -> None:
        self.bound: dict[str, CelType] = {}
        self._next = 0

    def fresh(self) -> CelType:
        self._next += 1
        return CelType("param", f"_var{self._next - 1}")

    def instantiate(self, types: Iterable[CelType], names: Iterable[str]) -> list[CelType]:
        """The types with fresh type parameters in place of the named ones."""
        mapping = {name: self.fresh() for name in names}
        return [replace(type_, mapping) for type_ in types]

    def resolve(self, type_: CelType) -> CelType:
        """The type with bound parameters replaced."""
        if type_.kind == "param":
            bound = self.bound.get(type_.name)
            return type_ if bound is None else self.resolve(bound)
        return _with_params(type_, [self.resolve(item) for item in type_.params])

    def finished(self, type_: CelType, known: dict[int, tuple[CelType, CelType]]) -> CelType:
        """``resolve``, with dyn for unbound parameters.

        ``known`` caches results by the identity of types with these bindings, since the types of nested lists contain each other.
        """
        found = known.get(id(type_))
        if found is None:
            if type_.kind == "param":
                bound = self.bound.get(type_.name)
                final = DYN if bound is None else self.finished(bound, known)
            else:
                final = _with_params(type_, [self.finished(item, known) for item in type_.params])
            found = known[id(type_)] = (type_, final)
        return found[1]

    def assignable(self, expected: CelType, given: CelType) -> bool:
        """Whether ``given`` is assignable to ``expected``; binds type parameters if so."""
        saved = dict(self.bound)
        if self._assignable(given, expected):
            return True
        self.bound = saved
        return False

    def assignable_all(self, expected: list[CelType], given: list[CelType]) -> bool:
        if len(expected) != len(given):
            return False
        saved = dict(self.bound)
        for one, other in zip(expected, given, strict=False):
            if not self._assignable(other, one):
                self.bound = saved
                return False
        return True

    def _assignable(self, given: CelType, expected: CelType) -> bool:
        if expected.kind == "param":
            fits, is_bound = self._fits(given, expected)
            if fits or is_bound:
                return fits
        if given.kind == "param":
            return self._fits(expected, given)[0]
        if given.kind in ("dyn", "error") or expected.kind in ("dyn", "error"):
            return True
        if given.kind == "null":
            return expected.kind in ("null", "struct", "wrapper", "timestamp", "duration", "opaque")
        if expected.kind == "null":
            return given.kind in ("struct", "wrapper", "timestamp", "duration", "opaque")
        if expected.kind == "wrapper":
            inner = given.params[0] if given.kind == "wrapper" else given
            return self._assignable(inner, expected.params[0])
        if given.kind == "wrapper":
            return self._assignable(given.params[0], expected)
        if expected.kind != given.kind:
            return False
        if expected.kind == "type":
            return True
        if expected.kind in ("struct", "opaque") and expected.name != given.name:
            return False
        if len(expected.params) != len(given.params):
            return False
        return all(self._assignable(one, other) for one, other in zip(given.params, expected.params, strict=False))

    def _fits(self, type_: CelType, variable: CelType) -> tuple[bool, bool]:
        """(whether a parameter may stand for the type, whether it is bound already).  A bound one becomes the less specific of
        both types, and an unbound one the type."""
        if type_.kind == "param" and type_.name == variable.name:
            return True, True
        bound = self.bound.get(variable.name)
        if bound is None:
            free = not self._occurs(variable.name, type_)
            if free:
                self.bound[variable.name] = type_
            return free, False
        if type_ is not bound:
            if not self._assignable(type_, bound):
                return False, True
            general = most_general(type_, bound)
            if not self._occurs(variable.name, general):
                self.bound[variable.name] = general
        return True, True

    def _occurs(self, name: str, type_: CelType) -> bool:
        while type_.kind == "param":
            bound = self.bound.get(type_.name)
            if type_.name == name or bound is None:
                return type_.name == name
            type_ = bound
        return any(self._occurs(name, item) for item in type_.params)

    def join(self, previous: CelType | None, current: CelType) -> CelType:
        """The type of an aggregate with elements of both types."""
        if previous is None:
            return current
        if self.assignable(previous, current):
            return most_general(self.resolve(previous), self.resolve(current))
        return DYN


def most_general(one: CelType, other: CelType) -> CelType:
    """The less specific of two assignable types."""
    if _less_specific(one, other):
        return one
    if _less_specific(other, one):
        return other
    return one


def _less_specific(one: CelType, other: CelType) -> bool:
    if one.kind in ("dyn", "param"):
        return True
    if other.kind in ("dyn", "param"):
        return False
    if one.kind == "wrapper" and other.kind != "wrapper" and other.kind != "null":
        return True
    if one.kind == "null":
        return False
    if other.kind == "null":
        return True
    if one.kind != other.kind or len(one.params) != len(other.params):
        return False
    return all(_less_specific(first, second) for first, second in zip(one.params, other.params, strict=False))


def replace(type_: CelType, mapping: dict[str, CelType]) -> CelType:
    """The type with named parameters replaced."""
    if type_.kind == "param":
        return mapping.get(type_.name, type_)
    if not type_.params:
        return type_
    return CelType(type_.kind, type_.name, tuple(replace(item, mapping) for item in type_.params))
