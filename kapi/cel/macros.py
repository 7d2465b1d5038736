"""Macros: calls that the parser expands to comprehensions.  Only the selectors of devices have ``cel.bind``.

Upstream: cel-go ``parser/macro.go``, ``ext/comprehensions.go``, ``ext/bindings.go``, ``cel/library.go`` for optionals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kapi.cel.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr, children

#: the name of the accumulator, which is no valid identifier
ACCU = "@result"
UNUSED = "#unused"
_SORTED = "@__sortBy_input__"
_MAX_COPIED_NODES = 200  # of a target that is evaluated twice
_NO_IDENTIFIER = "argument is not an identifier"

Macro = Callable[[int, Expr | None, list[Expr]], Expr | None]
Macros = Mapping[tuple[str, int, bool], Macro]  # by name, number of arguments, and whether there is a target


class MacroError(Exception):
    """A call of a macro with invalid arguments."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


def _variable(arg: Expr, otherwise: str = "argument must be a simple name") -> str:
    """The name of a variable; ``otherwise`` is the error for another argument.  Raises MacroError."""
    if not isinstance(arg, Ident) or arg.name.startswith("."):
        raise MacroError(arg.offset, otherwise)
    if arg.name in (ACCU, "__result__"):
        raise MacroError(arg.offset, "iteration variable overwrites accumulator variable")
    return arg.name


def _fold(
    at: int, target: Expr, var: str, var2: str, init: Expr, condition: Expr, step: Expr, result: Expr | None = None
) -> Comprehension:
    return Comprehension(at, target, var, var2, ACCU, init, condition, step, result or Ident(at, ACCU))


def _all(at: int, target: Expr, var: str, var2: str, predicate: Expr) -> Expr:
    return _fold(
        at,
        target,
        var,
        var2,
        Literal(at, True),
        Call(at, "@not_strictly_false", [Ident(at, ACCU)]),
        Call(at, "_&&_", [Ident(at, ACCU), predicate]),
    )


def _exists(at: int, target: Expr, var: str, var2: str, predicate: Expr) -> Expr:
    return _fold(
        at,
        target,
        var,
        var2,
        Literal(at, False),
        Call(at, "@not_strictly_false", [Call(at, "!_", [Ident(at, ACCU)])]),
        Call(at, "_||_", [Ident(at, ACCU), predicate]),
    )


def _exists_one(at: int, target: Expr, var: str, var2: str, predicate: Expr) -> Expr:
    return _fold(
        at,
        target,
        var,
        var2,
        Literal(at, 0),
        Literal(at, True),
        Call(at, "_?_:_", [predicate, Call(at, "_+_", [Ident(at, ACCU), Literal(at, 1)]), Ident(at, ACCU)]),
        Call(at, "_==_", [Ident(at, ACCU), Literal(at, 1)]),
    )


def _append(at: int, predicate: Expr | None, element: Expr) -> Expr:
    step: Expr = Call(at, "_+_", [Ident(at, ACCU), ListExpr(at, [element])])
    return step if predicate is None else Call(at, "_?_:_", [predicate, step, Ident(at, ACCU)])


def has(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    operand = args[0]
    if not isinstance(operand, Select) or operand.test:
        raise MacroError(operand.offset, "invalid argument to has() macro")
    return Select(at, operand.operand, operand.field, True)


def _one_variable(build: Callable[[int, Expr, str, str, Expr], Expr]) -> Macro:
    def expand(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
        assert target is not None
        return build(at, target, _variable(args[0]), "", args[1])

    return expand


def _two_variables(build: Callable[[int, Expr, str, str, Expr], Expr]) -> Macro:
    def expand(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
        assert target is not None
        first, second = _pair(args)
        return build(at, target, first, second, args[2])

    return expand


def _pair(args: list[Expr]) -> tuple[str, str]:
    first, second = _variable(args[0]), _variable(args[1])
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {second}")
    return first, second


def filter_list(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    assert target is not None
    var = _variable(args[0], _NO_IDENTIFIER)
    return _fold(at, target, var, "", ListExpr(at, []), Literal(at, True), _append(at, args[1], args[0]))


def map_list(at: int, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    var = _variable(args[0], _NO_IDENTIFIER)
    predicate = args[1] if len(args) == 3 else None
    return _fold(at, target, var, "", ListExpr(at, []), Literal(at, True), _append(at, predicate, args[-1]))


def transform_list(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    assert target is not None
    first, second = _pair(args)
    predicate = args[2] if len(args) == 4 else None
    return _fold(at, target, first, second, ListExpr(at, []), Literal(at, True), _append(at, predicate, args[-1]))


def transform_map(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    assert target is not None
    first, second = _pair(args)
    step: Expr = Call(at, "cel.@mapInsert", [Ident(at, ACCU), Ident(at, first), args[-1]])
    if len(args) == 4:
        step = Call(at, "_?_:_", [args[2], step, Ident(at, ACCU)])
    return _fold(at, target, first, second, MapExpr(at, []), Literal(at, True), step)


def transform_map_entry(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    assert target is not None
    first, second = _pair(args)
    step: Expr = Call(at, "cel.@mapInsert", [Ident(at, ACCU), args[-1]])
    if len(args) == 4:
        step = Call(at, "_?_:_", [args[2], step, Ident(at, ACCU)])
    return _fold(at, target, first, second, MapExpr(at, []), Literal(at, True), step)


def _let(at: int, name: str, init: Expr, result: Expr) -> Comprehension:
    return Comprehension(at, ListExpr(at, []), UNUSED, "", name, init, Literal(at, False), Ident(at, name), result)


def opt_map(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    return _optional(at, target, args, "optMap", lambda value: Call(at, "optional.of", [value]))


def _optional(at: int, target: Expr | None, args: list[Expr], name: str, wrap: Callable[[Expr], Expr]) -> Expr:
    assert target is not None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, f"{name}() variable name must be a simple identifier")
    once = _is_long(target)
    again = Ident(at, "@target") if once else target
    mapped = wrap(_let(at, args[0].name, Call(at, "value", [], again), args[1]))
    choice = Call(at, "_?_:_", [Call(at, "hasValue", [], again), mapped, Call(at, "optional.none", [])])
    return _let(at, "@target", target, choice) if once else choice


def _is_long(target: Expr) -> bool:
    """Whether a target is evaluated once.  Upstream evaluates a copy of it again; with nested calls the copies double."""
    stack, left = [target], _MAX_COPIED_NODES
    while stack and left:
        stack.extend(children(stack.pop()))
        left -= 1
    return bool(stack)


def sort_by(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    assert target is not None
    if isinstance(target, (Literal, MapExpr, StructExpr)):
        raise MacroError(
            target.offset, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = map_list(at, Ident(at, _SORTED), args)
    return _let(at, _SORTED, target, Call(at, "@sortByAssociatedKeys", [keys], Ident(at, _SORTED)))


def bind(at: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, "cel.bind() variable names must be simple identifiers")
    return _let(at, args[0].name, args[1], args[2])


MACROS: dict[tuple[str, int, bool], Macro] = {
    ("has", 1, False): has,
    ("all", 2, True): _one_variable(_all),
    ("exists", 2, True): _one_variable(_exists),
    ("exists_one", 2, True): _one_variable(_exists_one),
    ("all", 3, True): _two_variables(_all),
    ("exists", 3, True): _two_variables(_exists),
    ("exists_one", 3, True): _two_variables(_exists_one),
    ("existsOne", 3, True): _two_variables(_exists_one),
    ("map", 2, True): map_list,
    ("map", 3, True): map_list,
    ("filter", 2, True): filter_list,
    ("transformList", 3, True): transform_list,
    ("transformList", 4, True): transform_list,
    ("transformMap", 3, True): transform_map,
    ("transformMap", 4, True): transform_map,
    ("transformMapEntry", 3, True): transform_map_entry,
    ("transformMapEntry", 4, True): transform_map_entry,
    ("sortBy", 2, True): sort_by,
    ("optMap", 2, True): opt_map,
    ("optFlatMap", 2, True): lambda at, target, args: _optional(at, target, args, "optFlatMap", lambda value: value),
}
BINDING: Macros = {**MACROS, ("bind", 3, True): bind}
