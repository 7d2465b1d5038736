"""Declarations of functions: name, signatures, implementation (upstream: cel-go ``common/decls``).

A library is a list of Overloads made by ``declare``.  A signature is a text: ``"list(A).(int) A"`` is a member function with an
int, ``"(string) bool"`` a global function; a single capital letter is a type parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kapi.cel import types
from kapi.cel.arithmetic import Uint
from kapi.cel.errors import EvaluationError
from kapi.cel.times import Duration, Timestamp
from kapi.cel.types import CelType, Value
from kapi.cel.values import Optional, from_key

Implementation = TypeVar("Implementation", bound=Callable[..., Value])
Result = TypeVar("Result")
_PRIMITIVES: dict[str, CelType] = {
    "dyn": types.DYN,
    "null": types.NULL,
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
    "type": types.TYPE,
}
_PARTS = re.compile(r"[A-Za-z_.]+|[(),]")


def walks(function: Implementation) -> Implementation:
    """A decorator for implementations that walk a list or a text: they get the frame as first argument."""
    function.wants_frame = True  # type: ignore[attr-defined]
    return function


class Overload:
    """One signature of a function.  The first of ``args`` is the receiver of a member function."""

    __slots__ = ("function", "id", "args", "result", "member", "params", "impl", "guards")

    def __init__(
        self,
        function: str,
        id: str,
        args: list[CelType],
        result: CelType,
        member: bool,
        impl: Callable[..., Value] | None,
    ) -> None:
        self.function = function
        self.id = id
        self.args = args
        self.result = result
        self.member = member
        self.impl = impl
        names: set[str] = set()
        for type_ in [*args, result]:
            _params(type_, names)
        self.params = tuple(sorted(names))
        self.guards = tuple(guard(type_) for type_ in args)

    def accepts(self, values: tuple[Value, ...]) -> bool:
        """Whether the run-time values fit the signature."""
        for check, value in zip(self.guards, values, strict=False):
            if check is not None and not check(value):
                return False
        return True


def _params(type_: CelType, names: set[str]) -> None:
    if type_.kind == "param":
        names.add(type_.name)
    for item in type_.params:
        _params(item, names)


_GUARDS: dict[str, Callable[[Value], bool]] = {
    "null": lambda value: value is None,
    "bool": lambda value: value is True or value is False,
    "int": lambda value: value.__class__ is int,
    "uint": lambda value: value.__class__ is Uint,
    "double": lambda value: value.__class__ is float,
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: value.__class__ is bytes,
    "timestamp": lambda value: value.__class__ is Timestamp,
    "duration": lambda value: value.__class__ is Duration,
    "list": lambda value: isinstance(value, (list, tuple)),
    "map": lambda value: isinstance(value, dict),
    "type": lambda value: isinstance(value, CelType),
}


def guard(type_: CelType) -> Callable[[Value], bool] | None:
    """The runtime check of an argument; None if every value fits."""
    if type_.kind in ("dyn", "param"):
        return None
    if types.is_optional(type_):
        return lambda value: value.__class__ is Optional
    if type_.kind in _GUARDS:
        first = [guard(part) if part.kind not in ("list", "map") else None for part in type_.params]
        return _with_first(_GUARDS[type_.kind], first) if any(first) else _GUARDS[type_.kind]
    name = type_.name

    def named(value: object) -> bool:
        found = getattr(value, "cel_type", None)
        return found is not None and found.name == name

    return named


def _with_first(whole: Callable[[Value], bool], parts: list[Callable[[Value], bool] | None]) -> Callable[[Value], bool]:
    """The check of a list or map whose elements have a type: of the first one, as upstream."""

    def check(value: Value) -> bool:
        if not whole(value):
            return False
        for item in value:
            shown = (from_key(item), value[item]) if isinstance(value, dict) else (item,)
            return all(part is None or part(one) for part, one in zip(parts, shown, strict=True))
        return True

    return check


def read_type(text: str, named: Mapping[str, CelType]) -> CelType:
    """The type of a text such as ``map(string, A)``."""
    tokens = _PARTS.findall(text)
    position = 0

    def read() -> CelType:
        nonlocal position
        name = tokens[position]
        position += 1
        args: list[CelType] = []
        if position < len(tokens) and tokens[position] == "(":
            position += 1
            while tokens[position] != ")":
                if tokens[position] == ",":
                    position += 1
                args.append(read())
            position += 1
        if name == "list":
            return types.list_of(args[0])
        if name == "map":
            return types.map_of(args[0], args[1])
        if name == "optional":
            return types.optional_of(args[0])
        if name == "type" and args:
            return types.type_of(args[0])
        if name in named:
            return named[name]
        if len(name) == 1 and name.isupper():
            return types.param(name)
        return _PRIMITIVES[name]

    return read()


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    tail = text[start:].strip()
    return [part.strip() for part in [*parts, tail] if part.strip()]


def _closing(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        if text[position] == "(":
            depth += 1
        elif text[position] == ")":
            depth -= 1
            if depth == 0:
                return position
    raise ValueError(text)


def declare(
    function: str,
    id: str,
    signature: str,
    impl: Callable[..., Value] | None,
    named: Mapping[str, CelType] | None = None,
) -> Overload:
    """An overload from its signature's text."""
    known = named or {}
    member = ".(" in signature
    args: list[CelType] = []
    rest = signature
    if member:
        receiver, _, rest = signature.partition(".(")
        rest = "(" + rest
        args.append(read_type(receiver, known))
    closing = _closing(rest, 0)
    args.extend(read_type(part, known) for part in _split(rest[1:closing]))
    return Overload(function, id, args, read_type(rest[closing + 1 :].strip(), known), member, impl)


def table(*libraries: Iterable[Overload]) -> dict[str, list[Overload]]:
    """Overloads by function name."""
    functions: dict[str, list[Overload]] = {}
    for library in libraries:
        for overload in library:
            functions.setdefault(overload.function, []).append(overload)
    return functions


def converter(parse: Callable[..., Result], text: str = "{error}") -> Callable[..., Result]:
    """The implementation of a function that reads a text with ``parse``, which raises ValueError.

    ``text`` is the message of the evaluation's error; {error} stands for the parser's, {given} for the text.
    """

    def convert(given: str, *more: Value) -> Result:
        try:
            return parse(given, *more)
        except ValueError as error:
            raise EvaluationError(text.format(error=error, given=given)) from None

    return convert


def readable(parse: Callable[..., object]) -> Callable[..., bool]:
    """The implementation of a function that tells whether ``parse`` reads a text."""

    def is_readable(given: str, *more: Value) -> bool:
        try:
            parse(given, *more)
        except ValueError:
            return False
        return True

    return is_readable


def declarer(**named: CelType) -> Callable[[str, str, str, Callable[..., Value]], Overload]:
    """``declare`` for a library with types of its own."""

    def made(function: str, id: str, signature: str, impl: Callable[..., Value]) -> Overload:
        return declare(function, id, signature, impl, named)

    return made
