"""Environments and programs: how this package is used.

    env = Environment({"self": STRING})
    program = env.compile("self.startsWith('a')")          # raises CompileErrors
    program.result_type, program.cost_estimate
    program.evaluate({"self": "abc"}, budget=1_000_000)     # raises EvaluationError

An Environment is immutable; ``extend`` makes another with more variables.  Programs may be evaluated from any thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kapi.cel import types
from kapi.cel.errors import BudgetExceeded, CompileErrors, EvaluationError, Issue, ResultError, Source
from kapi.cel.frame import Frame
from kapi.cel.functions import Overload, table
from kapi.cel.types import CelType, StructType, Value
from kapi.machinery.checkpoint import engage
from kapi.machinery.importing import import_in_thread
from kapi.machinery.meters import DEFAULT_BOUNDS, histogram

if TYPE_CHECKING:
    from kapi.cel.checker import Scope
    from kapi.cel.sizes import Range, SizeOf
    from kapi.cel.syntax import Expr

PER_CALL_LIMIT = 1_000_000  # cost of one expression
RUNTIME_BUDGET = 10_000_000  # cost of all expressions of a request
MATCH_CONDITIONS_BUDGET = 2_500_000  # cost of all match conditions of a webhook or authorizer

#: seconds (upstream: apiserver ``cel/metrics``)
COMPILATION = histogram("apiserver_cel_compilation_duration_seconds", DEFAULT_BOUNDS)
#: of one expression; of all rules of a custom resource together, as in upstream
EVALUATION = histogram("apiserver_cel_evaluation_duration_seconds", DEFAULT_BOUNDS)

_ENGINE = tuple(
    f"kapi.cel.{name}"
    for name in (
        "values", "checker", "cost", "estimate", "standard", "macros", "parser", "reading", "operators", "evaluator", "literals",
        "library.authorizer", "library.formats", "library.lists", "library.network", "library.quantity", "library.regex",
        "library.semver", "library.sets", "library.strings", "library.urls", "library.kubernetes",
    )
)  # fmt: skip
_FUNCTIONS: dict[str, list[Overload]] | None = None
#: Python frames that the deepest allowed expression needs
_STACK_FRAMES = 4000
_LONG_CHARACTERS = 1000  # characters from which compilation may take long: 100,000 take a second


def kubernetes_functions() -> dict[str, list[Overload]]:
    """The functions that expressions in Kubernetes may call, by name."""
    global _FUNCTIONS
    if _FUNCTIONS is None:
        import_in_thread(*_ENGINE)  # most servers have no expression
        from kapi.cel.library.kubernetes import KUBERNETES
        from kapi.cel.standard import STANDARD

        _FUNCTIONS = table(STANDARD, KUBERNETES)
    return _FUNCTIONS


class Program:
    """A compiled expression."""

    __slots__ = ("tree", "result_type", "_estimate", "_size_of", "_run", "_slots", "source")

    def __init__(self, tree: Expr, source: str, result_type: CelType, scope: Scope, size_of: SizeOf | None) -> None:
        from kapi.cel.evaluator import Compiler

        compiler = Compiler(scope)
        self.tree = tree
        self.source = source
        self.result_type = result_type
        self._run = compiler.visit(tree)
        self._slots = compiler.slots
        self._size_of = size_of
        self._estimate: Range | None = None

    @property
    def cost_estimate(self) -> Range:
        """The range of the expression's cost, estimated from the declared sizes of its variables."""
        if self._estimate is None:
            from kapi.cel.estimate import estimate

            self._estimate = estimate(self.tree, self._size_of)
        return self._estimate

    def evaluate(self, activation: Mapping[str, Value], budget: int = PER_CALL_LIMIT, seconds: float = 0.0) -> Value:
        """The value of the expression.

        Raises EvaluationError: BudgetExceeded beyond the cost ``budget``, TimeExceeded after ``seconds`` (0: no limit).
        """
        return self.run(activation, budget, seconds)[0]

    def run(
        self, activation: Mapping[str, Value], budget: int = PER_CALL_LIMIT, seconds: float = 0.0
    ) -> tuple[Value, int]:
        """(value, cost); as ``evaluate``."""
        began = time.monotonic()
        frame = Frame(activation, self._slots, budget, began + seconds if seconds else 0.0)
        try:
            return self.run_in(frame), frame.cost
        finally:
            EVALUATION.observe(time.monotonic() - began)

    def run_in(self, frame: Frame) -> Value:
        """Evaluates in a given frame, which has the cost also when this raises."""
        if len(frame.slots) < self._slots:
            frame.slots = [None] * self._slots
        try:
            value = self._run(frame)
        except RecursionError:
            raise EvaluationError("expression is nested too deeply") from None
        except MemoryError:
            raise BudgetExceeded() from None
        if frame.cost > frame.limit:
            raise BudgetExceeded()
        return value


class Environment:
    """The variables, functions, constants and struct types that an expression may use.

    ``homogeneous``: elements of a literal list or map must be of one type, as in Kubernetes.
    ``binding``: whether ``cel.bind`` may name parts of an expression.
    """

    def __init__(
        self,
        variables: Mapping[str, CelType] | None = None,
        *,
        functions: Mapping[str, list[Overload]] | None = None,
        constants: Mapping[str, tuple[CelType, Value]] | None = None,
        structs: Sequence[StructType] | Mapping[str, StructType] = (),
        container: str = "",
        homogeneous: bool = True,
        binding: bool = False,
    ) -> None:
        import_in_thread(*_ENGINE)  # most servers have no expression
        from kapi.cel.checker import Scope
        from kapi.cel.library.kubernetes import KUBERNETES_CONSTANTS
        from kapi.cel.standard import CONSTANTS

        self._scope = Scope(
            dict(variables or {}),
            {**CONSTANTS, **KUBERNETES_CONSTANTS, **(constants or {})},
            functions if functions is not None else kubernetes_functions(),
            structs if isinstance(structs, Mapping) else {struct.name: struct for struct in structs},
            container,
            homogeneous,
        )
        self._binding = binding

    def extend(self, variables: Mapping[str, CelType]) -> Environment:
        """The same environment with more variables."""
        other = Environment.__new__(Environment)
        other._binding = self._binding
        old = self._scope
        other._scope = type(old)(
            {**old.variables, **variables}, old.constants, old.functions, old.structs, old.container, old.homogeneous
        )
        return other

    def compile(
        self,
        expression: str,
        *,
        size_of: SizeOf | None = None,
        checked: bool = True,
        mismatch: Callable[[CelType], str] | None = None,
    ) -> Program:
        """Parses, checks and compiles.  Raises CompileErrors.

        ``mismatch``: what is wrong with a result of a type; "" if nothing is.
        """
        from kapi.cel.checker import check
        from kapi.cel.literals import check_constants, check_literals
        from kapi.cel.macros import BINDING, MACROS
        from kapi.cel.parser import parse

        if len(expression) > _LONG_CHARACTERS:
            engage()
        if sys.getrecursionlimit() < _STACK_FRAMES:
            sys.setrecursionlimit(_STACK_FRAMES)
        source = Source(expression)
        began = time.monotonic()
        try:
            tree = parse(expression, macros=BINDING if self._binding else MACROS)
            result = check(tree, source, self._scope) if checked else types.DYN
            if checked and self._scope.homogeneous:
                check_literals(tree, source)
            wrong = mismatch(result) if mismatch is not None else ""
            if wrong:
                raise ResultError(source, wrong)
            if checked and self._scope.homogeneous:
                check_constants(tree, source)
            return Program(tree, expression, result, self._scope, size_of)
        except EvaluationError as error:
            raise CompileErrors(source, [Issue(0, str(error))]) from None
        except RecursionError:
            raise CompileErrors(source, [Issue(-1, "expression recursion limit exceeded: 250")]) from None
        finally:
            COMPILATION.observe(time.monotonic() - began)


def compile(expression: str, env: Environment, *, size_of: SizeOf | None = None) -> Program:
    """``env.compile`` as a function."""
    return env.compile(expression, size_of=size_of)
