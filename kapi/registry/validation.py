"""Validation that may take long: expressions of custom resources and their definitions.

A request's runs in slices.  Elsewhere it is tried at once for a moment; what takes longer runs again in a thread, so that the
reactor is never held up.
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

_REACTOR_SECONDS = 0.02  # seconds on the reactor
_LIMIT = 20.0  # seconds in a thread
_MAX_ERRORS_AT_ONCE = 1000  # errors that are not freed at once


async def validated(
    context: StrategyContext, validate: Callable[..., list[FieldError]], *objects: object
) -> list[FieldError]:
    """The errors that a strategy's method finds.  Raises Timeout."""
    if checkpoint.current is not None:
        context.patience = 0.0  # until the request's deadline
        return validate(*objects, context)
    context.patience = _REACTOR_SECONDS
    try:
        return validate(*objects, context)
    except TimeExceeded:
        context.patience = _LIMIT
    try:
        errors: list[FieldError] = await deferToThread(validate, *objects, context)
    except TimeExceeded:
        raise status.timeout(f"validation took longer than {_LIMIT:.0f} seconds") from None
    return errors


def refusal(store: ResourceStore, op: Operation, obj: Object, errors: list[FieldError]) -> status.Invalid:
    """The answer to an object with these errors."""
    sent = op.sent if op.resource.to_storage is None else None
    return invalid_answer(store.row, store.type_of(store.row), obj, errors, sent)


def invalid_answer(
    row: Resource, type_: Type, obj: Object, errors: list[FieldError], sent: Callable[[], Tree] | None
) -> status.Invalid:
    """The answer, of a row and its type; ``sent`` returns the object as the client sent it, None when that is not known."""
    if type_.schema is None:  # else a map to Go, too
        quoted.complete(errors, type_, sent, internal_form)
    answer = status.invalid(_given_kind(row, obj), obj["metadata"].get("name", ""), errors)
    if len(errors) > _MAX_ERRORS_AT_ONCE:
        free_in_steps(errors)
        free_in_steps(answer.details)
    return answer


def _given_kind(resource: Resource, obj: Object) -> GroupKind:
    """Of what kind an invalid object is: custom resources may say wrong things of themselves."""
    if not resource.typed_items:
        return resource.group_kind
    return GroupKind(GroupVersion.parse(obj.get("apiVersion") or "").group, obj.get("kind") or resource.kind)
