"""Checks of literals: invalid arguments are compile errors, and conversions of constants are computed at compile time.

Upstream: cel-go ``cel/validator.go``, ``ext/formatting.go``, ``interpreter/decorators.go``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from kapi.cel.errors import CompileErrors, EvaluationError, Issue, ProgramError, Source
from kapi.cel.library.formatting import check_format
from kapi.cel.standard import compile_pattern
from kapi.cel.syntax import Call, Expr, ListExpr, Literal, MapExpr, children
from kapi.cel.types import CelType, Value, display
from kapi.machinery.checkpoint import checkpoint

_TIMES = frozenset(("timestamp", "duration"))
CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
_PATTERNS = frozenset(("find", "findAll"))


def check_literals(tree: Expr, source: Source) -> None:
    """Raises CompileErrors for a bad literal pattern, timestamp, duration or format, and a list or map of several types."""
    issues: list[Issue] = []
    stack = [(tree, False)]
    while stack:
        checkpoint()
        node, formatted = stack.pop()
        if isinstance(node, Call):
            issue = _check(node)
            if issue is not None:
                issues.append(issue)
            formatted = formatted or node.function == "format"
        elif not formatted:
            issues.extend(_mixed(node))
        stack.extend((child, formatted) for child in children(node))
    if issues:
        raise CompileErrors(source, issues)


def _check(call: Call) -> Issue | None:
    if call.function == "format" and call.target is not None:
        return check_format(call)
    argument = call.args[-1] if call.args else None
    if not isinstance(argument, Literal):
        return None
    try:
        if call.function == "matches" and isinstance(argument.value, str):
            compile_pattern(argument.value)
        elif call.function in _TIMES and call.target is None:
            _converted(call, argument.value)
    except EvaluationError:
        return Issue(argument.offset, f"invalid {call.function} argument")
    return None


def _mixed(node: Expr) -> Iterator[Issue]:
    """The elements of a literal that are of another type than its first one; of a list the first of them."""
    if isinstance(node, ListExpr):
        elements = ((item, index in node.optional) for index, item in enumerate(node.elements))
        yield from itertools.islice(_others(elements), 1)
    elif isinstance(node, MapExpr):
        yield from _others((key, False) for key, _, _, _ in node.entries)
        yield from _others((value, optional) for _, value, optional, _ in node.entries)


def _others(elements: Iterable[tuple[Expr, bool]]) -> Iterator[Issue]:
    """``elements`` are pairs: the element, and whether it is an optional one."""
    first: CelType | None = None
    for element, optional in elements:
        checkpoint()
        assert element.type is not None
        found = element.type.params[0] if optional and element.type.params else element.type
        first = first or found
        if found != first:
            yield Issue(element.offset, f"expected type '{display(first)}' but found '{display(found)}'")


def _converted(call: Call, value: object) -> Value:
    for overload in call.overloads:
        if overload.impl is not None and overload.accepts((value,)):
            return overload.impl(value)
    return value


def check_constants(tree: Expr, source: Source) -> None:
    """Raises ProgramError for a constant that cannot be converted, or is an invalid pattern."""
    try:
        _constant(tree)
    except EvaluationError as error:
        raise ProgramError(source, str(error)) from None


def _constant(node: Expr) -> tuple[bool, Value]:
    """(whether the node is constant, its value)."""
    checkpoint()
    if isinstance(node, Literal):
        return True, node.value
    parts = [_constant(child) for child in children(node)]
    if not isinstance(node, Call) or not parts:
        return False, None
    if node.function in CONVERSIONS and len(parts) == 1 and node.target is None:
        found, value = parts[0]
        return (True, _converted(node, value)) if found else (False, None)
    if node.function in _PATTERNS and node.target is not None and len(parts) > 1:
        found, pattern = parts[1]
        if found and isinstance(pattern, str):
            compile_pattern(pattern)
    return False, None
