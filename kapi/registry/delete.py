"""Delete: preconditions, grace, finalizers, propagation; of a collection; of an object that cannot be decoded.

Upstream: ``store.go`` (Delete, DeleteCollection), ``registry/rest/delete.go``.

An object that cannot be decoded is deleted without preconditions, finalizers, admission or after-delete hooks (KEP-3926,
AllowUnsafeMalformedObjectDeletion; upstream: ``registry/generic/registry/corrupt_obj_deleter.go``).  Here that works whether the
gate is on or not, since nothing else can remove such an object.  As upstream, the gate decides what the option means for an
object that can be decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial

from twisted.logger import Logger

from kapi.admission.interface import DELETE
from kapi.authorization.interface import Attributes, Decision
from kapi.codecs.split import encode_halves
from kapi.machinery import status, tree
from kapi.machinery.checkpoint import LARGE, commit, engage
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.freeing import drop_tracebacks, free_in_steps
from kapi.machinery.gvk import GroupKind, GroupResource
from kapi.machinery.time import lasting, seconds_of, stamp
from kapi.machinery.tree import Object
from kapi.process.driver import Call
from kapi.registry.deletions import DeletionBatch, PendingDeletion
from kapi.registry.errors import interpret, missing
from kapi.registry.operation import Operation, Stored
from kapi.registry.resource_store import ResourceStore, check_name
from kapi.resources.definition import StrategyContext
from kapi.store.errors import KeyMissing, RevisionConflict, StoreError
from kapi.store.interface import MAX_DELETIONS, Deletion, Store
from kapi.watchcache.entry import Entry
from kapi.watchcache.unreadable import Unreadable

log = Logger()

OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
VERB = "unsafe-delete-ignore-read-errors"
GATE = "AllowUnsafeMalformedObjectDeletion"
_INCOMPATIBLE_OPTIONS = ("dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions")
_READABLE = "it is exclusively used to delete corrupt object(s), try again by removing this option"
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_MAX_BATCH_BYTES = 1_000_000  # total size of the objects that one command deletes


def refuse_readable(store: ResourceStore, op: Operation) -> None:
    """Raises Invalid when the gate is on and the option is set for an object that can be decoded."""
    if op.options.get(OPTION) and store.environment.features.get(GATE):
        raise _invalid(store, op, [invalid(Path(OPTION), True, _READABLE)])


async def delete_unreadable(store: ResourceStore, op: Operation, error: Unreadable) -> Stored:
    """Deletes the object and returns only its name.  Raises ``error`` without the option, Forbidden, Invalid."""
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
        raise interpret(failed, op.group_resource, op.name) from failed
    log.warn(
        "deleted an object that could not be read: {resource} {key}", resource=str(store.group_resource), key=error.key
    )
    return Stored(obj, b"", revision, deleted=True)


async def _authorize(store: ResourceStore, op: Operation) -> None:
    """Raises Forbidden.  The permission to delete has been checked before; this is an additional verb."""
    group, version, resource = op.resource.group_version_resource
    asked = Attributes(
        op.user, VERB, group=group, version=version, resource=resource, namespace=op.namespace, name=op.name
    )
    verdict = await store.environment.authorize(asked)
    if verdict is not None and verdict.decision is not Decision.ALLOW:
        raise status.forbidden(store.group_resource, op.name, f'not permitted to do "{VERB}", reason: {verdict.reason}')


def _invalid(store: ResourceStore, op: Operation, errors: list[FieldError]) -> status.StatusError:
    resource = store.group_resource
    return status.invalid(GroupKind(resource.group, resource.resource), op.name, errors)


async def delete(store: ResourceStore, op: Operation) -> Stored:
    """Deletes the object, or sets its ``deletionTimestamp``: ``deleted`` of the result says which.

    ``op.options`` are DeleteOptions.  Raises StatusError: NotFound, Conflict (preconditions), Forbidden.
    """
    check_name(op.name)
    current = op.collection  # the list has already waited for a fresh cache, and warned once for all
    for text in () if current else store.row.strategy.warnings_on_delete(op.options):
        op.warn(text)
    while True:
        waiting = None if current else store.cache.wait_fresh()
        if waiting is not None:
            await waiting
        try:
            try:
                entry = store.cache.get(op.namespace, op.name)
                if entry is None:
                    raise missing(op.group_resource, op.namespace, op.name)
                refuse_readable(store, op)
                return await _delete_once(store, op, entry)
            except Unreadable as error:
                _leave_batch(op)
                return await delete_unreadable(store, op, error)
        except (RevisionConflict, KeyMissing) as error:
            drop_tracebacks(error)
            current = False


async def _delete_once(store: ResourceStore, op: Operation, entry: Entry) -> Stored:
    if len(entry.data) >= LARGE:
        engage()
    existing: Object = entry.object
    options = op.options
    context = store.context(op)
    if store.row.strategy.marks_deletion:
        _check_before_mark(op.group_resource, options, existing)
    else:  # upstream names the kind here, not the resource
        check_preconditions(GroupResource(store.row.group, store.row.kind), options, existing)
    store.row.strategy.admit_delete(existing, context)
    if not op.admitted:
        attributes = store.attributes(op, DELETE, None, store.read(op.resource, entry))
        await store.admission.admit(attributes)
        await store.admission.validate(attributes)

    row = store.row
    obj: Object = _copied(existing, entry) if row.graceful or row.strategy.marks_deletion else existing
    if row.strategy.begin_deletion(obj, options, context):
        return await _store_marked(store, op, obj, existing, entry)
    graceful, pending = _begin_graceful(store, options, obj, context)
    if pending:
        return Stored(existing, entry.data, entry.revision)
    finalizers = _finalizers(store, options, obj["metadata"], context)
    if obj is existing and (finalizers is not None or existing["metadata"].get("finalizers")):
        obj = _copied(existing, entry)
    metadata = obj["metadata"]
    if finalizers is not None:
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
    waits = bool(metadata.get("finalizers"))
    if waits and not graceful:
        _mark_as_deleting(store, metadata)
    if waits or (graceful and metadata.get("deletionGracePeriodSeconds")):
        return await _store_marked(store, op, obj, existing, entry)
    as_stored = obj is existing or not graceful  # the answer to an immediate deletion has the object's finalizers
    if as_stored:
        obj = {**existing, "metadata": {**existing["metadata"]}}  # its resourceVersion changes
    halves = entry.halves if as_stored else store.encode(obj)
    if op.dry_run:
        return store.stored(obj, halves, entry.revision, deleted=True)
    expected = entry.revision
    if graceful:  # even without grace, watchers first see that the object is being deleted
        expected = (await _store_marked(store, op, obj, existing, entry)).revision
    deletion = Deletion(store.key(op.namespace, op.name), expected, *halves)
    try:
        commit()
        if as_stored and op.pending is not None and op.pending.can_batch:
            revision = await op.pending.delete(deletion)
        else:
            _leave_batch(op)
            revision = await store.store.delete(*deletion)
    except (RevisionConflict, KeyMissing):
        raise
    except StoreError as error:
        raise interpret(error, op.group_resource, op.name) from error
    if row.lifecycle is not None:
        await row.lifecycle.after_delete(obj, context)
    return store.written(op.user, obj, halves, revision, deleted=True)


def _copied(existing: Object, entry: Entry) -> Object:
    obj: Object = tree.copy(existing)
    free_in_steps(obj, len(entry.data))
    return obj


def _leave_batch(op: Operation) -> None:
    """Leaves the batch; objects of a collection are deleted in their order."""
    if op.pending is not None:
        op.pending.leave_batch()


async def _store_marked(store: ResourceStore, op: Operation, obj: Object, existing: Object, entry: Entry) -> Stored:
    """Stores the object with its deletion time."""
    if tree.equal(obj, existing):
        return Stored(existing, entry.data, entry.revision)
    halves = store.encode(obj)
    if op.dry_run:
        return store.stored(obj, halves, entry.revision)
    try:
        commit()
        _leave_batch(op)
        key, size = store.key(op.namespace, op.name), len(entry.data)
        revision = await store.store.update(key, entry.revision, *halves, replaced=size, going=True)
    except (RevisionConflict, KeyMissing):
        raise
    except StoreError as error:
        raise interpret(error, op.group_resource, op.name) from error
    return store.written(op.user, obj, halves, revision)


def check_preconditions(resource: GroupResource, options: Object, existing: Object) -> None:
    """Raises Conflict when uid or resourceVersion differ; ``resource`` is how the message names the object."""
    preconditions = options.get("preconditions") or {}
    metadata = existing["metadata"]
    uid, version, stored_uid = preconditions.get("uid"), preconditions.get("resourceVersion"), metadata.get("uid", "")
    if uid is not None and uid != stored_uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({stored_uid}). "
            "The object might have been deleted and then recreated"
        )
        raise status.conflict(resource, metadata["name"], why)
    if version is not None and version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
        raise status.conflict(resource, metadata["name"], why)


def _check_before_mark(resource: GroupResource, options: Object, existing: Object) -> None:
    """The preconditions, in the words of the types that mark their deletion themselves."""
    metadata = existing["metadata"]
    for name, shown in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = (options.get("preconditions") or {}).get(name)
        if wanted is not None and wanted != metadata[name]:
            why = f"Precondition failed: {shown} in precondition: {wanted}, {shown} in object meta: {metadata[name]}"
            raise status.conflict(resource, metadata["name"], why)


def _begin_graceful(store: ResourceStore, options: Object, obj: Object, context: StrategyContext) -> tuple[bool, bool]:
    """(graceful, already pending); sets the deletion time and grace period on ``obj`` when graceful."""
    metadata = obj["metadata"]
    period = options.get("gracePeriodSeconds")
    if period is not None and period < 0:
        period = 1
    if not store.row.graceful:
        return False, False
    grace = store.row.strategy.graceful_delete(obj, {**options, "gracePeriodSeconds": period}, context)
    assert grace is not None
    now = store.environment.clock()
    if metadata.get("deletionTimestamp"):
        current = metadata.get("deletionGracePeriodSeconds")
        if not current:
            return False, False
        if period is None or period >= current:
            return False, True
        until = seconds_of(metadata["deletionTimestamp"]) - lasting(current) + lasting(period)
        if until < int(now):
            until = now
            if period != 0:
                period = 1
        metadata["deletionTimestamp"] = stamp(until)
        metadata["deletionGracePeriodSeconds"] = period
        return True, False
    metadata["deletionTimestamp"] = stamp(now + lasting(grace))
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1
    return True, False


def _mark_as_deleting(store: ResourceStore, metadata: Object) -> None:
    if not metadata.get("deletionTimestamp") and metadata.get("generation", 0) > 0:
        metadata["generation"] += 1
    now = store.environment.now()
    if not metadata.get("deletionTimestamp") or metadata["deletionTimestamp"] > now:
        metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = 0


def _finalizers(store: ResourceStore, options: Object, metadata: Object, context: StrategyContext) -> list[str] | None:
    """The finalizers that the options' propagation asks for; None when they stay as they are."""
    if not store.environment.garbage_collection:
        return None
    old = metadata.get("finalizers") or []
    policy = store.row.strategy.default_garbage_collection(metadata, context)
    orphan = policy != "unsupported" and _should_orphan(options, old, policy)
    foreground = policy != "unsupported" and _should_wait_for_dependents(options, old)
    new = [name for name in old if name not in (ORPHAN, FOREGROUND)]
    if orphan:
        new.append(ORPHAN)
    if foreground:
        new.append(FOREGROUND)
    return None if set(new) == set(old) else new


def _should_orphan(options: Object, finalizers: list[str], policy: str) -> bool:
    explicit = options.get("orphanDependents")
    if explicit is not None:
        return bool(explicit)
    propagation = options.get("propagationPolicy")
    if propagation is not None:
        return bool(propagation == "Orphan")
    for name in finalizers:
        if name == ORPHAN:
            return True
        if name == FOREGROUND:
            return False
    return policy == "orphan"


def _should_wait_for_dependents(options: Object, finalizers: list[str]) -> bool:
    if options.get("orphanDependents") is not None:
        return False
    propagation = options.get("propagationPolicy")
    if propagation is not None:
        return bool(propagation == "Foreground")
    for name in finalizers:
        if name == FOREGROUND:
            return True
        if name == ORPHAN:
            return False
    return False


async def delete_collection(
    store: Store,
    entries: Iterable[Entry],
    delete_one: Callable[[Entry, PendingDeletion], Coroutine[object, object, object]],
    workers: int,
    call: Call,
) -> None:
    """Deletes the entries of a consistent list, at most ``workers`` at a time, in the slices of the caller or by ``call``.

    They reach the store in batches: while it deletes one batch, the next is prepared.  An object that another client has
    deleted first is skipped.  Raises the first StatusError; deletions that have begun still complete.
    """
    batch_size = max(1, min(MAX_DELETIONS, workers // 2))
    max_running = 2 if workers > 1 else 1
    running: deque[DeletionBatch] = deque()
    batch = DeletionBatch(store, call)
    try:
        for entry in entries:
            batch.begin(partial(delete_one, entry))
            if batch.count >= batch_size or batch.stored_bytes >= _MAX_BATCH_BYTES:
                batch.send()
                running.append(batch)
                batch = DeletionBatch(store, call)
                if len(running) >= max_running:
                    await running[0].end()
                    running.popleft()
        batch.send()
        running.append(batch)
        while running:
            await running[0].end()
            running.popleft()
    except BaseException:
        for each in (*running, batch):
            each.detach()
        raise
