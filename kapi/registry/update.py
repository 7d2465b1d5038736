"""Update: read, transform, check, compare and swap; repeated on conflicts (upstream: ``store.go`` Update)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kapi.admission.interface import CREATE, UPDATE
from kapi.machinery import status, tree
from kapi.machinery.checkpoint import commit
from kapi.machinery.each import elements
from kapi.machinery.field import Path, invalid
from kapi.machinery.freeing import drop_tracebacks, free_in_steps
from kapi.machinery.golang import NumberError, parse_uint
from kapi.machinery.gvk import GroupKind, GroupResource
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry.contention import Hold
from kapi.registry.create import charges_of, insert
from kapi.registry.errors import interpret, missing
from kapi.registry.operation import Operation, Stored
from kapi.registry.resource_store import ResourceStore, check_name
from kapi.registry.validation import refusal, validated
from kapi.resources.definition import StrategyContext
from kapi.schema.managedfields import only_timestamps_differ
from kapi.store.errors import KeyExists, KeyMissing, OutcomeUnknown, Outdated, RevisionConflict, StoreError
from kapi.watchcache.entry import Entry

#: (existing object or None) -> new object, which the caller may change; called for every attempt
Transform = Callable[["Object | None"], Awaitable[Object]]


async def update(
    store: ResourceStore, op: Operation, transform: Transform, *, allow_create: bool = False, uid: str = ""
) -> Stored:
    """Stores the object that ``transform`` makes from the stored one.

    Retries when another writer was first, unless the new object has a resourceVersion: then a mismatch is a Conflict.
    Who was too late twice queues up.  A write that changes nothing stores nothing.  Raises StatusError.
    """
    name, resource = op.name, op.group_resource
    check_name(name)
    creatable = allow_create or op.strategy.allow_create_on_update
    late = 0  # how often another writer was first
    hold: Hold | None = None
    try:
        while True:
            if late > 1 and hold is None:
                hold = await store.contention.enter(store.key(op.namespace, name))
            waiting = store.cache.wait_fresh()
            if waiting is not None:
                await waiting
            entry = store.cache.get(op.namespace, name)
            try:
                if entry is None:
                    if not creatable:
                        raise missing(resource, op.namespace, name)
                    meta.check_uid(uid, None, resource, op.namespace, name, op.dry_run)
                    return await _create_instead(store, op, await transform(None))
                existing = store.read(op.resource, entry)
                if uid:
                    meta.check_uid(uid, existing, resource, op.namespace, name, op.dry_run)
                op.stored = entry.data
                obj = await transform(existing)
                free_in_steps(obj, len(op.stored))
                return await _update_once(store, op, existing, entry, obj)
            except Outdated as error:
                if op.counted is not None:  # the caller has to recalculate the usage
                    raise interpret(error, resource, name) from None
                drop_tracebacks(error)
            except (RevisionConflict, KeyMissing) as error:  # another writer was first: try again with its object
                drop_tracebacks(error)
                late += 1
    finally:
        if hold is not None:
            hold.release()


async def _create_instead(store: ResourceStore, op: Operation, obj: Object) -> Stored:
    if op.authorize_create is not None:
        await op.authorize_create()
    attributes = store.attributes(op, CREATE, obj, None)
    await store.admission.admit(attributes)
    obj = attributes.obj if attributes.obj is not None else obj
    meta.ensure_namespace(obj, op.namespace, op.gvr)
    meta.ensure_name(obj, op.name)
    op.warn(meta.dedup_owner_references(obj, after_admission=True))
    if store.row.guard is not None:
        await store.row.guard(obj, None, store.context(op))
    _parse_version(obj["metadata"].get("resourceVersion", ""))
    try:
        return await insert(store, op, obj, attributes)
    except KeyExists as error:
        raise interpret(error, op.group_resource, op.name) from None


def _check_version(metadata: Object, current: str, resource: GroupResource, op: Operation) -> None:
    """Compares the resourceVersion of an update with the current one, which an unconditional update gets.

    Raises Conflict when they differ, Invalid where an update must name one.
    """
    expected = metadata.get("resourceVersion", "")
    if expected in ("", "0"):
        if not op.strategy.allow_unconditional_update:
            cause = invalid(Path("metadata").child("resourceVersion"), 0, "must be specified for an update")
            raise status.invalid(GroupKind(resource.group, resource.resource), op.name, [cause])
        metadata["resourceVersion"] = current
    elif expected != current:
        _parse_version(expected)
        raise status.conflict(resource, op.name, status.OPTIMISTIC_LOCK)


def _parse_version(text: str) -> None:
    """Checks that a text is a resourceVersion or empty.  Raises StatusError (500) with Go's text."""
    try:
        if text:
            parse_uint(text)
    except NumberError as error:
        raise status.generic(f'strconv.ParseUint: parsing "{text}": {error}') from None


async def _update_once(store: ResourceStore, op: Operation, existing: Object, entry: Entry, obj: Object) -> Stored:
    old_meta = existing["metadata"]
    view = op.view
    if view is None:
        attributes = store.attributes(op, UPDATE, obj, existing)
        await store.admission.admit(attributes)
        obj = attributes.obj if attributes.obj is not None else obj
        meta.ensure_namespace(obj, op.namespace, op.gvr)
    else:  # the transform has run admission on the subresource's kind
        attributes = store.attributes(op, UPDATE, None, view(existing))
    op.warn(meta.dedup_owner_references(obj, after_admission=True))
    metadata = obj.setdefault("metadata", {})
    op.guard_errors.clear()  # errors of the last attempt
    context = store.context(op)
    if store.row.guard is not None:
        await store.row.guard(obj, existing, context)

    _check_version(metadata, old_meta["resourceVersion"], op.group_resource, op)
    context.stored = entry.data
    lifecycle = store.row.lifecycle
    finish = await lifecycle.begin_update(obj, existing, context) if lifecycle is not None else None
    committed: bool | None = False  # None: unknown, the store has not answered
    try:
        await _before_update(store, op, obj, existing, context)
        if only_timestamps_differ(obj, existing):
            metadata["managedFields"] = old_meta["managedFields"]
        attributes.obj = obj if view is None else view(obj)
        await store.admission.validate(attributes)
        if attributes.unpruned:
            op.strategy.prune(obj)
        kept = await store.stored_form(obj)
        if _finished_deleting(obj, old_meta) and not store.row.strategy.holds_deletion(obj):
            outcome = await _delete_finalized(store, op, kept, entry)
        elif tree.equal(kept, entry.object) and not store.store.stale(store.key(op.namespace, op.name)):
            outcome = Stored(entry.object, entry.data, entry.revision)
        elif op.dry_run:
            outcome = store.stored(kept, store.encode(kept), entry.revision)
        else:
            halves = store.encode(kept)
            key = store.key(op.namespace, op.name)
            try:
                charges = charges_of(store, attributes) if attributes.charges else ()
                commit()
                committed = None
                revision = await store.store.update(
                    key,
                    entry.revision,
                    *halves,
                    charges=charges,
                    counted=op.counted,
                    replaced=len(entry.data),
                    going="deletionTimestamp" in metadata,
                )
            except (RevisionConflict, KeyMissing, Outdated):
                committed = False
                raise  # left to the next attempt: a patch may still apply, a given resourceVersion does not match
            except OutcomeUnknown as unknown:
                raise interpret(unknown, op.group_resource, op.name) from unknown
            except StoreError as error:
                committed = False
                raise interpret(error, op.group_resource, op.name) from error
            outcome = store.written(op.user, kept, halves, revision)
        committed = not op.dry_run
        return outcome
    finally:
        if finish is not None and committed is not None:  # otherwise the object may be stored, and use the allocations
            await finish(committed)


async def _before_update(
    store: ResourceStore, op: Operation, obj: Object, existing: Object, context: StrategyContext
) -> None:
    """Restores fields that an update may not change, then prepares and validates (upstream: ``rest.BeforeUpdate``)."""
    metadata, old_meta, strategy = obj["metadata"], existing["metadata"], op.strategy
    if not op.dry_run:  # upstream removes it when it writes to the storage
        metadata.pop("selfLink", None)
    if "generation" in old_meta:
        metadata["generation"] = old_meta["generation"]
    else:
        metadata.pop("generation", None)
    strategy.prepare_for_update(obj, existing, context)
    if not metadata.get("uid") and "uid" in old_meta:  # an object that another program stored may have neither
        metadata["uid"] = old_meta["uid"]
    if "creationTimestamp" in old_meta:
        metadata["creationTimestamp"] = old_meta["creationTimestamp"]
    if "deletionTimestamp" in old_meta:
        metadata["deletionTimestamp"] = old_meta["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old_meta and metadata.get("deletionGracePeriodSeconds") is None:
        metadata["deletionGracePeriodSeconds"] = old_meta["deletionGracePeriodSeconds"]
    found = await validated(context, strategy.validate_update, obj, existing)
    judged = strategy.covers_metadata_changes and not found
    errors = meta.validate_update(obj, existing, store.row.namespaced, judged=judged)
    errors.extend(found)
    if errors:
        for warning in elements(context.warnings):
            op.warn(warning)
        raise refusal(store, op, obj, errors)
    for warning in elements(strategy.warnings_on_update(obj, existing, context)):
        op.warn(warning)
    strategy.canonicalize(obj)
    store.drop_empty_lists(obj)


def _finished_deleting(obj: Object, old_meta: Object) -> bool:
    """Whether an update removes the last finalizer of an object that is being deleted."""
    return (
        not obj["metadata"].get("finalizers")
        and bool(old_meta.get("deletionTimestamp"))
        and not old_meta.get("deletionGracePeriodSeconds")
    )


async def _delete_finalized(store: ResourceStore, op: Operation, obj: Object, entry: Entry) -> Stored:
    """Deletes the object: watches get the last stored state, the client gets the updated object."""
    halves = store.encode(obj)
    if op.dry_run:
        return store.stored(obj, halves, entry.revision, deleted=True)
    try:
        stored_halves = store.encode(entry.object)
        commit()
        revision = await store.store.delete(store.key(op.namespace, op.name), entry.revision, *stored_halves)
    except (RevisionConflict, KeyMissing):
        raise
    except StoreError as error:
        raise interpret(error, op.group_resource, op.name) from error
    outcome = store.written(op.user, obj, halves, revision, deleted=True)
    if store.row.lifecycle is not None:
        await store.row.lifecycle.after_delete(obj, store.context(op))
    return outcome
