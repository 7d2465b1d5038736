"""Writes of the server itself to the parent object of a subresource, such as a pod that is bound to a node.

No defaulting, strategy, admission, validation or field tracking (upstream: ``GuaranteedUpdate`` of a storage).
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.machinery import status, tree
from kapi.machinery.checkpoint import commit
from kapi.machinery.tree import Object
from kapi.registry.errors import interpret
from kapi.registry.operation import Stored
from kapi.registry.resource_store import ResourceStore
from kapi.request.user import UserInfo
from kapi.store.errors import KeyMissing, RevisionConflict, StoreError


async def modify(
    store: ResourceStore,
    user: UserInfo,
    namespace: str,
    name: str,
    change: Callable[[Object], None],
    *,
    dry_run: bool = False,
) -> Stored:
    """Stores the object after ``change`` (in place, on a copy); repeated when another writer was first.

    Raises NotFound, and the errors of ``change``.
    """
    while True:
        waiting = store.cache.wait_fresh()
        if waiting is not None:
            await waiting
        entry = store.cache.get(namespace, name)
        if entry is None:
            raise status.not_found(store.group_resource, name)
        obj: Object = tree.copy(entry.object)
        change(obj)
        if tree.equal(obj, entry.object):
            return Stored(entry.object, entry.data, entry.revision)
        halves = store.encode(obj)
        if dry_run:
            return store.stored(obj, halves, entry.revision)
        try:
            commit()
            key, going = store.key(namespace, name), "deletionTimestamp" in obj["metadata"]
            revision = await store.store.update(key, entry.revision, *halves, replaced=len(entry.data), going=going)
        except (RevisionConflict, KeyMissing):
            continue
        except StoreError as error:
            raise interpret(error, store.group_resource, name) from error
        return store.written(user, obj, halves, revision)
