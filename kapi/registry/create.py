"""Create (upstream: ``registry/generic/registry/store.go`` Create, ``registry/rest/create.go`` BeforeCreate)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kapi.admission.interface import CREATE, Attributes
from kapi.machinery import status
from kapi.machinery.checkpoint import commit
from kapi.machinery.each import elements
from kapi.machinery.freeing import drop_tracebacks
from kapi.machinery.golang import NumberError, parse_uint
from kapi.machinery.tree import Object
from kapi.machinery.uid import new_uid
from kapi.registry import metadata as meta
from kapi.registry.errors import interpret
from kapi.registry.operation import Operation, Stored
from kapi.registry.resource_store import ResourceStore
from kapi.registry.validation import refusal, validated
from kapi.store.errors import KeyExists, OutcomeUnknown, Outdated, StoreError
from kapi.store.interface import Charge
from kapi.watchcache.entry import Entry
from kapi.watchcache.unreadable import Unreadable

_MAX_ATTEMPTS = 8  # attempts, each with another name or another charge


def charges_of(store: ResourceStore, attributes: Attributes) -> Sequence[Charge]:
    """The quotas that admission has charged, by their keys in the store, with their revisions.

    Empty when quotas are in another store than the object: there is no transaction over both.
    """
    if store.store is not store.environment.quotas:
        return ()
    prefix = f"core/resourcequotas/{attributes.namespace}/"
    return [Charge(prefix + name, revision) for name, revision in attributes.charges.items()]


async def create(store: ResourceStore, op: Operation, obj: Object) -> Stored:
    """Stores a new object.

    ``obj`` is decoded, defaulted and in the storage version; it is changed in place.  Raises StatusError:
    AlreadyExists, Invalid, Forbidden (from admission or a guard), and errors of a lifecycle.
    """
    op.warn(meta.dedup_owner_references(obj, after_admission=False))
    store.track_update(op, None, obj)
    attributes = store.attributes(op, CREATE, obj, None)
    await store.admission.admit(attributes)
    obj = attributes.obj if attributes.obj is not None else obj
    meta.ensure_namespace(obj, op.namespace, op.gvr)
    op.warn(meta.dedup_owner_references(obj, after_admission=True))
    if store.row.guard is not None:
        await store.row.guard(obj, None, msgspec.structs.replace(store.context(op), name=""))
    given = obj["metadata"].get("resourceVersion", "")
    if given and not op.dry_run and _is_revision(given):
        raise status.generic("resourceVersion should not be set on objects to be created")
    return await insert(store, op, obj, attributes)


def _is_revision(text: str) -> bool:
    """Whether a text is a resourceVersion other than 0; malformed texts are ignored, as upstream does."""
    try:
        return parse_uint(text) > 0
    except NumberError:
        return False


async def insert(store: ResourceStore, op: Operation, obj: Object, attributes: Attributes) -> Stored:
    """The part after mutating admission, shared with an update that creates."""
    metadata = obj["metadata"]
    if not op.dry_run:  # upstream removes them when it writes to the storage
        metadata.pop("resourceVersion", None)
        metadata.pop("selfLink", None)
    identities = None if op.dry_run else store.environment.identities
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = store.environment.now()
    generated = bool(metadata.get("generateName")) and not metadata.get("name")
    if generated and metadata.get("labels"):  # upstream goes on with a copy, where no other part shares the labels
        metadata["labels"] = dict(metadata["labels"])
    for attempt in range(_MAX_ATTEMPTS):
        if generated:
            base = metadata["generateName"]
            suffix = "" if identities is None else identities.suffix(store.place(op.namespace, base))
            metadata["name"] = meta.generate_name(base, suffix)
        if identities is not None and (generated or not attempt):
            metadata["uid"] = identities.uid(store.place(op.namespace, metadata.get("name", "")))
        try:
            return await _insert_once(store, op, obj, attributes)
        except Outdated as outdated:
            if attempt + 1 == _MAX_ATTEMPTS:
                raise interpret(outdated, op.group_resource, metadata["name"]) from None
            drop_tracebacks(outdated)
            attributes.charges.clear()  # quota admission charges the next attempt again
        except KeyExists as taken:
            drop_tracebacks(taken)
            name = metadata["name"]
            if generated and attempt + 1 < _MAX_ATTEMPTS:
                continue
            error = status.already_exists(op.group_resource, name)
            if generated:
                error = status.generate_name_conflict(op.group_resource, name)
            entry = _readable(store, op.namespace, name)
            if entry is not None and entry.object["metadata"].get("deletionTimestamp"):
                error = status.AlreadyExists(f"object is being deleted: {error.message}", details=error.details)
            raise error from None
    raise AssertionError("unreachable")


async def _insert_once(store: ResourceStore, op: Operation, obj: Object, attributes: Attributes) -> Stored:
    metadata = obj["metadata"]
    strategy = op.strategy
    context = store.context(op)
    context.name = metadata.get("name", "")
    finish = None
    lifecycle = store.row.lifecycle
    if lifecycle is not None and op.subresource is None:
        finish = await lifecycle.begin_create(obj, context)
    committed: bool | None = False  # None: unknown, the store has not answered
    try:
        strategy.prepare_for_create(obj, context)
        for warning in elements(context.warnings):
            op.warn(warning)
        errors = await validated(context, strategy.validate, obj)
        if not errors and not strategy.covers_metadata:
            errors = meta.validate(obj, store.row.namespaced)
        if errors:
            raise refusal(store, op, obj, errors)
        for warning in elements(strategy.warnings_on_create(obj, context)):
            op.warn(warning)
        strategy.canonicalize(obj)
        store.drop_empty_lists(obj)
        attributes.obj = obj
        attributes.name = metadata.get("name", "")
        await store.admission.validate(attributes)
        if attributes.unpruned:
            strategy.prune(obj)
        name = metadata["name"]
        key = store.key(op.namespace, name)
        kept = await store.stored_form(obj)
        try:
            if op.dry_run:
                await _must_be_free(store, op.namespace, name, key)
                outcome = Stored(kept, b"", 0, created=True)
            else:
                halves = store.encode(kept)
                charges = charges_of(store, attributes) if attributes.charges else ()
                commit()
                committed = None
                revision = await store.store.create(key, *halves, expires=store.expires(), charges=charges)
                outcome = store.written(op.user, kept, halves, revision, created=True)
        except (KeyExists, Outdated):
            committed = False
            raise
        except OutcomeUnknown as unknown:
            raise interpret(unknown, op.group_resource, name) from unknown
        except StoreError as error:
            committed = False
            raise interpret(error, op.group_resource, name) from error
        committed = not op.dry_run
        return outcome
    finally:
        if finish is not None and committed is not None:  # otherwise the object may exist, and use the allocations
            await finish(committed)


async def _must_be_free(store: ResourceStore, namespace: str, name: str, key: str) -> None:
    """Raises KeyExists when the cache has the object: a dry run cannot ask the store."""
    waiting = store.cache.wait_fresh()
    if waiting is not None:
        await waiting
    try:
        free = store.cache.get(namespace, name) is None
    except Unreadable:
        free = False
    if not free:
        raise KeyExists(key)


def _readable(store: ResourceStore, namespace: str, name: str) -> Entry | None:
    try:
        return store.cache.get(namespace, name)
    except Unreadable:
        return None
