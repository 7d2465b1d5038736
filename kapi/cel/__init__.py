"""A bounded engine for the Common Expression Language, usable by itself (upstream: github.com/google/cel-spec)."""

from __future__ import annotations

from kapi.cel.environment import (
    MATCH_CONDITIONS_BUDGET,
    PER_CALL_LIMIT,
    RUNTIME_BUDGET,
    Environment,
    Program,
    compile,
    kubernetes_functions,
)
from kapi.cel.errors import BudgetExceeded, Cancelled, CelError, CompileErrors, EvaluationError, TimeExceeded

__all__ = [
    "BudgetExceeded",
    "Cancelled",
    "CelError",
    "CompileErrors",
    "Environment",
    "EvaluationError",
    "MATCH_CONDITIONS_BUDGET",
    "PER_CALL_LIMIT",
    "Program",
    "RUNTIME_BUDGET",
    "TimeExceeded",
    "compile",
    "kubernetes_functions",
]
