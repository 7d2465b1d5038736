"""matchConditions: CEL expressions that must all hold before a webhook is called (KEP 3716)."""

from __future__ import annotations

from kapi.admission.cel import AuthorizationChecks, Bindings
from kapi.admission.initializer import Initializer
from kapi.admission.interface import Attributes
from kapi.admission.webhook.hooks import Hook
from kapi.machinery.golang import aggregate
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.status import forbidden
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import (
    CompileError,
    EvaluationError,
    Expression,
    compile_expression,
    environment,
)

MAX_COST = 2_500_000  # of all conditions of one webhook and request


async def conditions_hold(
    hook: Hook,
    initializer: Initializer,
    attributes: Attributes,
    kind: GroupVersionKind,
    resource: GroupVersionResource,
    obj: Object | None,
    old: Object | None,
    errors: list[str],
) -> bool:
    """Whether the hook is to be called.  Raises Forbidden when a condition fails and the failure policy is Fail.

    ``errors`` takes what went wrong with conditions.
    """
    checks = AuthorizationChecks(initializer.authorizer, attributes.user)
    bindings = Bindings(attributes, kind, resource, obj, old, checks)
    budget = MAX_COST
    if hook.compiled is None:
        hook.compiled = [_compiled(expression) for _, expression in hook.conditions]
    for condition in hook.compiled:
        if isinstance(condition, CompileError):
            errors.append(str(condition))
            continue
        try:
            value, cost = await bindings.evaluate(condition, budget)
        except EvaluationError as error:
            errors.append(str(error))
            continue
        budget -= cost
        if value is False:
            return False
    if not errors:
        return True
    if hook.ignore_failures:
        return False
    text = aggregate(errors)
    raise forbidden(attributes.resource.group_resource, attributes.name, text)


def _compiled(expression: str) -> Expression | CompileError:
    try:
        return compile_expression(expression, environment())
    except CompileError as error:
        return error
