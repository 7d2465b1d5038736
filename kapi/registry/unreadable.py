"""Deletion of an object that cannot be decoded: without preconditions, finalizers, admission or after-delete hooks.

Upstream: KEP-3926 (AllowUnsafeMalformedObjectDeletion), ``registry/generic/registry/corrupt_obj_deleter.go``.  Here it
works whether the gate is on or not, since nothing else can remove such an object.  As upstream, the gate decides what the
option means for an object that can be decoded.
"""

from __future__ import annotations

from twisted.logger import Logger

from kapi.authorization.interface import Attributes, Decision
from kapi.codecs.split import encode_halves
from kapi.machinery import status
from kapi.machinery.checkpoint import commit
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.gvk import GroupKind
from kapi.machinery.tree import Object
from kapi.registry.errors import interpret
from kapi.registry.operation import Operation, Stored
from kapi.registry.resource_store import ResourceStore
from kapi.store.errors import KeyMissing, RevisionConflict, StoreError
from kapi.watchcache.unreadable import Unreadable

log = Logger()

OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
VERB = "unsafe-delete-ignore-read-errors"
GATE = "AllowUnsafeMalformedObjectDeletion"
_INCOMPATIBLE_OPTIONS = ("dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions")
_READABLE = "it is exclusively used to delete corrupt object(s), try again by removing this option"


def refuse_readable(store: ResourceStore, op: Operation) -> None:
    """Raises Invalid when the gate is on and the option is set for an object that can be decoded."""
    if op.options.get(OPTION) and store.environment.features.get(GATE):
        raise _invalid(store, op, [invalid(Path(OPTION), True, _READABLE)])


async def delete_unreadable(store: ResourceStore, op: Operation, error: Unreadable) -> Stored:
    """Deletes the object and answers only its name.  Raises ``error`` without the option, Forbidden, Invalid."""
    if not op.options.get(OPTION):
        raise error
    wrong: list[FieldError] = [
        invalid(Path(OPTION), True, f"cannot be set together with .{name}")
        for name in _INCOMPATIBLE_OPTIONS
        if op.options.get(name) not in (None, [], {})
    ]
    if wrong:
        raise _invalid(store, op, wrong)
    await _authorize(store, op)
    metadata: Object = {"name": op.name}
    if op.namespace:
        metadata["namespace"] = op.namespace
    obj = {"kind": store.row.kind, "apiVersion": str(store.row.group_version), "metadata": metadata}
    revision = error.revision
    try:
        commit()
        try:
            revision = await store.store.delete(store.key(op.namespace, op.name), revision, *encode_halves(obj))
        except RevisionConflict as conflict:  # the revision was read from damaged bytes
            if error.revision:
                raise
            revision = await store.store.delete(
                store.key(op.namespace, op.name), conflict.revision, *encode_halves(obj)
            )
    except (RevisionConflict, KeyMissing):
        raise
    except StoreError as failed:
        raise interpret(failed, store.group_resource, op.name) from failed
    log.warn(
        "deleted an object that could not be read: {resource} {key}",
        resource=str(store.group_resource),
        key=error.key,
    )
    return Stored(obj, b"", revision, deleted=True)


async def _authorize(store: ResourceStore, op: Operation) -> None:
    """Raises Forbidden.  The permission to delete has been checked before; this is an additional verb."""
    authorizer = store.environment.authorizer
    if authorizer is None:
        return
    row = op.resource
    verdict = authorizer.authorize(
        Attributes(
            user=op.user,
            verb=VERB,
            group=row.group,
            version=row.version,
            resource=row.plural,
            namespace=op.namespace,
            name=op.name,
        )
    )
    if not isinstance(verdict, tuple):
        verdict = await verdict
    if verdict.decision is not Decision.ALLOW:
        why = f'not permitted to do "{VERB}", reason: {verdict.reason}'
        raise status.forbidden(store.group_resource, op.name, why)


def _invalid(store: ResourceStore, op: Operation, errors: list[FieldError]) -> status.StatusError:
    resource = store.group_resource
    return status.invalid(GroupKind(resource.group, resource.resource), op.name, errors)
