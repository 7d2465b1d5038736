"""Runs a strategy's validation without blocking the reactor; expressions of custom resources may take long.

In a request's slices it just runs.  Elsewhere it runs on the reactor's thread for a moment; if that is not enough, it runs again
in a thread of the pool.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.threads import deferToThread

from kapi.cel import TimeExceeded
from kapi.machinery import checkpoint, status
from kapi.machinery.field import FieldError
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.gvk import GroupKind, GroupVersion
from kapi.machinery.tree import Object, Tree
from kapi.registry.operation import Operation
from kapi.registry.resource_store import ResourceStore
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared.internal import internal_form
from kapi.schema import quoted
from kapi.schema.types import Type

_MAX_REACTOR_SECONDS = 0.02
_MAX_THREAD_SECONDS = 20.0
_MAX_ERRORS_FREED_AT_ONCE = 1000


async def validated(
    context: StrategyContext, validate: Callable[..., list[FieldError]], *objects: object
) -> list[FieldError]:
    """The errors that a strategy's ``validate`` or ``validate_update`` returns.  Raises Timeout."""
    if checkpoint.current is not None:
        context.validation_seconds = 0.0  # until the request's deadline
        return validate(*objects, context)
    context.validation_seconds = _MAX_REACTOR_SECONDS
    try:
        return validate(*objects, context)
    except TimeExceeded:
        context.validation_seconds = _MAX_THREAD_SECONDS
    try:
        errors: list[FieldError] = await deferToThread(validate, *objects, context)
    except TimeExceeded:
        raise status.timeout(f"validation took longer than {_MAX_THREAD_SECONDS:.0f} seconds") from None
    return errors


def refusal(store: ResourceStore, op: Operation, obj: Object, errors: list[FieldError]) -> status.Invalid:
    """The 422 for an object of an operation."""
    sent = op.sent if op.resource.to_storage is None else None
    return invalid_answer(store.row, store.type_of(store.row), obj, errors, sent)


def invalid_answer(
    row: Resource, type_: Type, obj: Object, errors: list[FieldError], sent: Callable[[], Tree] | None
) -> status.Invalid:
    """The 422 for an object of a row; ``sent`` returns the object as the client sent it, None when that is unknown."""
    if type_.schema is None:  # upstream holds custom resources as maps: their values need no completion
        quoted.complete(errors, type_, sent, internal_form)
    answer = status.invalid(_given_kind(row, obj), obj["metadata"].get("name", ""), errors)
    if len(errors) > _MAX_ERRORS_FREED_AT_ONCE:
        free_in_steps(errors)
        free_in_steps(answer.details)
    return answer


def _given_kind(resource: Resource, obj: Object) -> GroupKind:
    """The kind that the answer names: of a custom resource the one in the object, which may be wrong."""
    if not resource.typed_items:
        return resource.group_kind
    return GroupKind(GroupVersion.parse(obj.get("apiVersion") or "").group, obj.get("kind") or resource.kind)
