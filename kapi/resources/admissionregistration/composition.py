"""The variables of a policy, which later expressions may use by name (upstream: apiserver ``plugin/cel/composition.go``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapi.cel import errors as cel_errors
from kapi.cel.environment import Environment
from kapi.cel.types import DYN, StructField, StructType
from kapi.machinery.tree import Object, Tree
from kapi.resources.admissionregistration.expressions import (
    CompileError,
    EvaluationError,
    Expression,
    compile_expression,
    environment,
)


class Composition:
    """The variables of one policy, and the environments its expressions are compiled in."""

    def __init__(self, *, params: bool = False, patches: bool = False, empty: bool = False) -> None:
        """``empty``: there are no variables, so expressions may not name ``variables``."""
        self.params = params
        self.patches = patches
        self.type = StructType("kubernetes.variables")
        self.expressions: dict[str, Expression | CompileError] = {}
        #: the environment of most expressions; variables that are added later are in it, too
        self._offered = None if empty else self.type
        self.environment = environment(params=params, patches=patches, variables=self._offered)

    def bare(self) -> Environment:
        """The environment of expressions that may not use the authorizer."""
        return environment(params=self.params, authorizer=False, variables=self._offered)

    def add(self, name: str, text: str) -> None:
        """Adds a variable.  Raises CompileError; the variable is declared then, without a type."""
        try:
            compiled = compile_expression(text, self.environment, ())
        except CompileError as error:
            self.expressions[name] = error
            self.type.fields[name] = StructField(name, DYN)
            raise
        self.expressions[name] = compiled
        self.type.fields[name] = StructField(name, compiled.program.result_type)

    def add_all(self, variables: Iterable[Mapping[str, Tree]]) -> None:
        """Adds variables; an error of one is reported where it is used."""
        for variable in variables:
            try:
                self.add(variable.get("name") or "", variable.get("expression") or "")
            except CompileError:
                continue


class LazyVariables(Object):
    """The values of the variables for one request, each evaluated when it is first used; ``cost`` is the sum of their costs."""

    def __init__(self, composition: Composition, values: Mapping[str, Tree], budget: int) -> None:
        super().__init__()
        self._composition = composition
        self._values = {**values, "variables": self}
        self._budget = budget
        self._failed: dict[str, str] = {}
        self.cost = 0

    def __contains__(self, name: object) -> bool:
        return name in self._composition.expressions

    def __missing__(self, name: str) -> Tree:
        if name in self._failed:
            raise cel_errors.EvaluationError(self._failed[name])
        expression = self._composition.expressions[name]
        try:
            if isinstance(expression, CompileError):
                raise cel_errors.EvaluationError(f'composited variable "{name}" fails to compile: {expression}')
            try:
                value, cost = expression.evaluate(self._values, max(self._budget - self.cost, 0))
            except EvaluationError as error:
                raise cel_errors.EvaluationError(
                    f'composited variable "{name}" fails to evaluate: {error.cause}'
                ) from None
        except cel_errors.EvaluationError as error:
            self._failed[name] = str(error)
            raise
        self.cost += cost
        self[name] = value
        return value
