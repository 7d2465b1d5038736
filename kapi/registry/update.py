"""Update: read, transform, check, compare and swap; again while others win (upstream: ``store.go`` Update)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kapi.admission.interface import CREATE, UPDATE
from kapi.machinery import status, tree
from kapi.machinery.checkpoint import commit, steps
from kapi.machinery.field import Path, invalid
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.gvk import GroupKind
from kapi.machinery.numbers import NumberError, parse_uint
from kapi.machinery.tracebacks import let_go
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry.charges import charges_of
from kapi.registry.create import insert
from kapi.registry.errors import interpret
from kapi.registry.operation import Operation, Stored
from kapi.registry.resource_store import ResourceStore, check_name
from kapi.registry.upstream_key import missing
from kapi.registry.validation import refusal, validated
from kapi.resources.definition import StrategyContext
from kapi.schema.managedfields import only_timestamps_differ
from kapi.store.errors import KeyExists, KeyMissing, OutcomeUnknown, Outdated, RevisionConflict, StoreError
from kapi.watchcache.entry import Entry

#: (existing object or None) -> new object, free to be changed; called anew on every attempt
Transform = Callable[["Object | None"], Awaitable[Object]]


async def update(
    store: ResourceStore, op: Operation, transform: Transform, *, allow_create: bool = False, uid: str = ""
) -> Stored:
    """Writes what ``transform`` makes of the stored object.

    Loops while other writers win, unless the new object names a resourceVersion: then the first mismatch is a
    Conflict.  A write that changes nothing stores nothing.  Raises StatusError.
    """
    name, resource = op.name, store.group_resource
    check_name(name)
    creatable = allow_create or op.strategy.allow_create_on_update
    while True:
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
            op.stored_bytes = len(entry.data)
            obj = await transform(existing)
            free_in_steps(obj, op.stored_bytes)
            return await _update_once(store, op, existing, entry, obj)
        except Outdated as error:
            if op.counted is not None:  # whoever counted has to count anew
                raise interpret(error, resource, name) from None
            let_go(error)
        except (RevisionConflict, KeyMissing) as error:  # somebody else was faster: look at what is there now
            let_go(error)


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
    try:
        return await insert(store, op, obj, attributes)
    except KeyExists as error:
        raise interpret(error, store.group_resource, op.name) from None


async def _update_once(store: ResourceStore, op: Operation, existing: Object, entry: Entry, obj: Object) -> Stored:
    resource, strategy = store.group_resource, op.strategy
    old_meta = existing["metadata"]
    view = op.view
    if view is None:
        attributes = store.attributes(op, UPDATE, obj, existing)
        await store.admission.admit(attributes)
        obj = attributes.obj if attributes.obj is not None else obj
        meta.ensure_namespace(obj, op.namespace, op.gvr)
    else:  # the transform has had its own kind admitted
        attributes = store.attributes(op, UPDATE, None, view(existing))
    op.warn(meta.dedup_owner_references(obj, after_admission=True))
    metadata = obj.setdefault("metadata", {})
    op.refused.clear()  # of an attempt that was too late
    context = store.context(op)
    if store.row.guard is not None:
        await store.row.guard(obj, existing, context)

    wanted = metadata.get("resourceVersion", "")
    if wanted in ("", "0"):
        if not strategy.allow_unconditional_update:
            cause = invalid(Path("metadata").child("resourceVersion"), 0, "must be specified for an update")
            raise status.invalid(GroupKind(resource.group, resource.resource), op.name, [cause])
        metadata["resourceVersion"] = old_meta["resourceVersion"]
    elif wanted != old_meta["resourceVersion"]:
        try:
            parse_uint(wanted)
        except NumberError as error:
            raise status.generic(f'strconv.ParseUint: parsing "{wanted}": {error}') from None
        raise status.conflict(resource, op.name, status.OPTIMISTIC_LOCK)

    context.stored = entry.data
    lifecycle = store.row.lifecycle
    finish = await lifecycle.begin_update(obj, existing, context) if lifecycle is not None else None
    committed: bool | None = False  # None: it may have been, or may still be
    try:
        await _before_update(store, op, obj, existing, context)
        if only_timestamps_differ(obj, existing):
            metadata["managedFields"] = old_meta["managedFields"]
        attributes.obj = obj if view is None else view(obj)
        await store.admission.validate(attributes)
        kept = await store.stored_form(obj)
        if _finished_deleting(obj, old_meta) and not store.row.strategy.holds_deletion(obj):
            outcome = await _delete_finalized(store, op, kept, entry)
        elif tree.equal(kept, entry.object) and not store.store.stale(store.key(op.namespace, op.name)):
            outcome = Stored(entry.object, entry.data, entry.revision)
        elif op.dry_run:
            outcome = store.stored(obj, store.encode(obj), entry.revision)
        else:
            halves = store.encode(kept)
            key = store.key(op.namespace, op.name)
            try:
                charges = charges_of(store, attributes) if attributes.charges else ()
                commit()
                committed = None  # until the store has said
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
                raise  # the next attempt finds out whether the change still fits: a patch may, a named version does not
            except OutcomeUnknown as unknown:
                raise interpret(unknown, resource, op.name) from unknown
            except StoreError as error:
                committed = False
                raise interpret(error, resource, op.name) from error
            outcome = store.written(op.user, kept, halves, revision)
        committed = not op.dry_run
        return outcome
    finally:
        if finish is not None and committed is not None:  # else what the write took may be in use
            await finish(committed)


async def _before_update(
    store: ResourceStore, op: Operation, obj: Object, existing: Object, context: StrategyContext
) -> None:
    """Keeps what an update may not touch, prepares and validates."""
    metadata, old_meta, strategy = obj["metadata"], existing["metadata"], op.strategy
    metadata.pop("selfLink", None)
    if "generation" in old_meta:
        metadata["generation"] = old_meta["generation"]
    else:
        metadata.pop("generation", None)
    strategy.prepare_for_update(obj, existing, context)
    if not metadata.get("uid"):
        metadata["uid"] = old_meta["uid"]
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
        raise refusal(store, op, obj, errors)
    for warning in steps(strategy.warnings_on_update(obj, existing, context)):
        op.warn(warning)
    strategy.canonicalize(obj)
    store.drop_empty_lists(obj)


def _finished_deleting(obj: Object, old_meta: Object) -> bool:
    """True when the last finalizer goes from an object whose deletion was asked for."""
    return (
        not obj["metadata"].get("finalizers")
        and bool(old_meta.get("deletionTimestamp"))
        and not old_meta.get("deletionGracePeriodSeconds")
    )


async def _delete_finalized(store: ResourceStore, op: Operation, obj: Object, entry: Entry) -> Stored:
    """Deletes what is stored: its watchers see the last stored state, the client its own."""
    halves = store.encode(obj)
    if op.dry_run:
        return store.stored(obj, halves, entry.revision, deleted=True)
    try:
        last = store.encode(entry.object)
        commit()
        revision = await store.store.delete(store.key(op.namespace, op.name), entry.revision, *last)
    except (RevisionConflict, KeyMissing):
        raise
    except StoreError as error:
        raise interpret(error, store.group_resource, op.name) from error
    outcome = store.written(op.user, obj, halves, revision, deleted=True)
    if store.row.lifecycle is not None:
        await store.row.lifecycle.after_delete(obj, store.context(op))
    return outcome
