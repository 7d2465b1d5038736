"""Evaluates the expressions of one policy for one request and parameter, within its budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from kapi.admission.cel import Bindings
from kapi.admission.initializer import Initializer
from kapi.admission.interface import Attributes
from kapi.cel.environment import MATCH_CONDITIONS_BUDGET, RUNTIME_BUDGET, Environment
from kapi.cel.types import BOOL, CelType, Value
from kapi.machinery.golang import aggregate
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import not_found
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import (
    OUT_OF_BUDGET,
    CompileError,
    Composition,
    EvaluationError,
    Expression,
    LazyVariables,
    compile_expression,
)

Compiled = Expression | CompileError


def compiled(text: str, env: Environment, expected_types: tuple[CelType, ...] = (BOOL,)) -> Compiled:
    """The compiled expression, or the error that its evaluation raises."""
    try:
        return compile_expression(text, env, expected_types)
    except CompileError as error:
        return error


class Evaluation:
    """The evaluation of one policy for one request and parameter.  ``budget`` is the remaining cost."""

    def __init__(
        self,
        bindings: Bindings,
        composition: Composition,
        param: Object | None,
        budget: int = RUNTIME_BUDGET,
        *,
        hidden: Collection[str] = (),
        **others: Value,
    ) -> None:
        """``others`` stand for variables of ``bindings``; ``hidden`` ones have no value."""
        self._bindings = bindings
        self.budget = budget
        values: dict[str, Value] = {**bindings.values, "params": param, **others}
        for name in hidden:
            del values[name]
        self._variables = values["variables"] = LazyVariables(composition, values, budget)
        self._values = values

    async def run(self, expression: Compiled) -> Value:
        """The value of an expression.  Raises EvaluationError, fatal when the budget is used up."""
        if isinstance(expression, CompileError):
            raise EvaluationError(f"compilation error: {expression}")
        before = self._variables.cost
        try:
            value, cost = await self._bindings.evaluate(expression, self.budget, self._values)
        except EvaluationError as error:
            self.budget -= error.cost + self._variables.cost - before
            raise
        self.budget -= cost + self._variables.cost - before
        if self.budget < 0:
            raise EvaluationError(OUT_OF_BUDGET, fatal=True)
        return value


async def conditions_hold(
    conditions: list[Compiled],
    bindings: Bindings,
    composition: Composition,
    param: Object | None,
    ignore_failures: bool,
    count: Callable[[float, int], None] | None = None,
) -> bool:
    """Whether matchConditions hold; the first that is false decides.  Raises EvaluationError with all errors.

    ``count`` is called with the seconds that it took and the number of conditions that failed.
    """
    if not conditions:
        return True
    start = time.perf_counter()
    errors: list[str] = []
    try:
        return await _hold(conditions, bindings, composition, param, ignore_failures, errors)
    finally:
        if count is not None:
            count(time.perf_counter() - start, len(errors))


async def _hold(
    conditions: list[Compiled],
    bindings: Bindings,
    composition: Composition,
    param: Object | None,
    ignore_failures: bool,
    errors: list[str],
) -> bool:
    evaluation = Evaluation(bindings, composition, param, MATCH_CONDITIONS_BUDGET, namespaceObject=None)  # as upstream
    for condition in conditions:
        try:
            if await evaluation.run(condition) is False:
                return False
        except EvaluationError as error:
            errors.append(str(error))
            if error.fatal:
                break
    if not errors:
        return True
    if ignore_failures:
        return False
    raise EvaluationError(aggregate(errors))


def condition_counter(initializer: Initializer, policy: str, operation: str) -> Callable[[float, int], None] | None:
    """Counts the results of ``conditions_hold`` for a policy; upstream has one label for both kinds of policies."""
    meter = initializer.meter
    if meter is None:
        return None
    return lambda seconds, errors: meter.conditions(policy, "policy", "validate", operation, seconds, errors)


def error_type(text: str) -> str:
    """The name of a policy's decision in metrics."""
    if text.startswith("compilation"):
        return "compile_error"
    return "out_of_budget" if text.startswith(OUT_OF_BUDGET) else "invalid_error"


async def namespace_of(initializer: Initializer, attributes: Attributes) -> Object | None:
    """The namespace of a request for a namespaced resource.  Raises NotFound."""
    name = attributes.namespace
    if not name or attributes.kind == ("", "v1", "Namespace"):
        return None
    found = await initializer.live("", "namespaces", name)
    if found is None:
        raise not_found(GroupResource("", "namespaces"), name)
    return found
