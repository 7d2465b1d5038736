"""A bounded engine for the Common Expression Language (upstream: github.com/google/cel-spec, cel-go).

Here belong lexer, parser, checker, cost estimate, evaluator and the function libraries.  They know neither Kubernetes types
nor requests.  Not here: the variables of an expression (``kapi.admission.cel``, ``kapi.schema.structural.celtypes``,
``kapi.authorization.match_conditions``).
Start reading with ``environment.py`` and ``evaluator.py``.
"""

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
from kapi.cel.errors import (
    BudgetExceeded,
    Cancelled,
    CelError,
    CompileErrors,
    EvaluationError,
    ProgramError,
    TimeExceeded,
)

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
    "ProgramError",
    "RUNTIME_BUDGET",
    "TimeExceeded",
    "compile",
    "kubernetes_functions",
]
