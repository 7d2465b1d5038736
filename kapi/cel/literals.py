"""Literal arguments that cannot work are compile errors (upstream: cel-go ``cel/validator.go``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kapi.cel.errors import CompileErrors, EvaluationError, Issue, Source
from kapi.cel.standard import compile_pattern, duration_of, timestamp_of
from kapi.cel.syntax import Call, Expr, Literal, children

_CHECKS: dict[str, Callable[[str], Any]] = {
    "matches": compile_pattern,
    "timestamp": timestamp_of,
    "duration": duration_of,
}


def check_literals(tree: Expr, source: Source) -> None:
    """Raises CompileErrors for a bad literal pattern, timestamp or duration."""
    issues: list[Issue] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Call) and node.function in _CHECKS and node.args:
            argument = node.args[-1]
            if isinstance(argument, Literal) and isinstance(argument.value, str):
                try:
                    _CHECKS[node.function](argument.value)
                except EvaluationError:
                    issues.append(Issue(argument.offset, f"invalid {node.function} argument"))
        stack.extend(children(node))
    if issues:
        raise CompileErrors(source, issues)
