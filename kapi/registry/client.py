"""The in-process client over the registry: no HTTP to oneself, but the same admission, validation and events."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.client.interface import EventHandler
from kapi.client.sliced import Sliced
from kapi.machinery import status, tree
from kapi.machinery.checkpoint import steps
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.gvk import GroupResource, GroupVersionKind
from kapi.machinery.tree import Object
from kapi.registry import read
from kapi.registry.conversion import converting
from kapi.registry.create import create
from kapi.registry.delete import delete
from kapi.registry.delete_collection import delete_collection as delete_all
from kapi.registry.deletions import Outcome
from kapi.registry.deliveries import Deliveries
from kapi.registry.operation import Operation, Stored
from kapi.registry.resource_store import ResourceStore
from kapi.registry.self_requests import SELF_REQUESTS
from kapi.registry.stores import Stores
from kapi.registry.update import update
from kapi.request.user import LOOPBACK_USER, UserInfo
from kapi.resources.definition import Subresource
from kapi.schema import mergepatch
from kapi.schema.decode import decode
from kapi.watchcache.cache import Batch, Cache, Entry, Watch, WatchEvent
from kapi.watchcache.event import DELETED
from kapi.watchcache.unreadable import Unreadable

log = Logger()
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class CacheLister:
    """Decoded objects of a cache.  They are shared: never change them."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store

    def get(self, namespace: str, name: str) -> Object | None:
        """None, too, for an object that cannot be read: a lister goes around it."""
        try:
            entry = self._store.cache.get(namespace, name)
            return None if entry is None else entry.object
        except Unreadable:
            return None

    def list(self, namespace: str = "") -> list[Object]:
        return self._store.cache.objects(namespace)

    @property
    def changes(self) -> int:
        return self._store.cache.changes


def _in_slices(
    verb: Callable[Concatenate[StoreClient, Arguments], Coroutine[Deferred[object], object, Result]],
) -> Callable[Concatenate[StoreClient, Arguments], Coroutine[Deferred[object], object, Result]]:
    """What a verb computes runs in slices (ADR 18), whoever asks, and after each of its waits."""

    @wraps(verb)
    async def run(client: StoreClient, /, *arguments: Arguments.args, **more: Arguments.kwargs) -> Result:
        result: Result = await Sliced(verb(client, *arguments, **more), client._store.cache.call).done
        return result

    return run


class StoreClient:
    """One resource, in its storage version."""

    def __init__(self, store: ResourceStore, user: UserInfo, manager: str) -> None:
        self._store = store
        self._user = user
        self._manager = manager
        self.lister = CacheLister(store)

    @property
    def history(self) -> object:
        return self._store.store

    def _operation(self, namespace: str, name: str, kind: str, options: Object | None = None) -> Operation:
        tree_ = {"kind": kind, "apiVersion": "meta.k8s.io/v1", **(options or {})}
        return Operation(self._store.row, namespace, name, user=self._user, field_manager=self._manager, options=tree_)

    def _count(self, verb: str, subresource: str = "") -> None:
        SELF_REQUESTS.add(verb, *self._store.group_resource, subresource)

    @_in_slices
    async def get(self, name: str, namespace: str = "") -> Object:
        self._count("GET")
        return (await read.get(self._store, namespace, name)).object

    @_in_slices
    async def list(self, namespace: str = "") -> builtins.list[Object]:
        return (await self.list_at(namespace))[0]

    @_in_slices
    async def list_at(self, namespace: str = "") -> tuple[builtins.list[Object], int]:
        self._count("LIST")
        page = await read.list_page(self._store, namespace, None)
        found, size = [], 0
        for entry in steps(page.entries):
            found.append(entry.object)
            size += len(entry.data)
        free_in_steps(found, size)
        return found, page.revision

    @_in_slices
    async def create(self, obj: Object, namespace: str = "") -> Object:
        self._count("POST")
        obj = self._typed(obj)
        metadata = obj.setdefault("metadata", {})
        if namespace:
            metadata["namespace"] = namespace
        self._store.row.strategy.default(obj)
        op = self._operation(namespace, metadata.get("name", ""), "CreateOptions")
        return (await create(self._store, op, obj)).obj

    def _typed(self, obj: Object) -> Object:
        row = self._store.row
        return {"kind": row.kind, "apiVersion": str(row.group_version), **tree.copy(obj)}

    @_in_slices
    async def update(
        self, obj: Object, namespace: str = "", subresource: str = "", *, counted: int | None = None
    ) -> Object:
        def change(existing: Object | None, op: Operation) -> Object:
            new = self._typed(obj)
            self._store.row.strategy.default(new)
            self._store.track_update(op, existing, new)
            return new

        self._count("PUT", subresource)
        return await self._write("UpdateOptions", obj["metadata"]["name"], namespace, subresource, change, counted)

    @_in_slices
    async def patch(self, name: str, patch: Object, namespace: str = "", subresource: str = "") -> Object:
        def change(existing: Object | None, op: Operation) -> Object:
            new: Object = mergepatch.apply(tree.copy(self._there(existing, name)), tree.copy(patch))
            self._store.row.strategy.default(new)
            self._store.track_update(op, existing, new)
            return new

        self._count("PATCH", subresource)
        return await self._write("PatchOptions", name, namespace, subresource, change)

    @_in_slices
    async def apply(self, name: str, declared: Object, namespace: str = "", subresource: str = "") -> Object:
        def change(existing: Object | None, op: Operation) -> Object:
            row = self._store.row
            fields = self._store.field_manager(row, op.subresource)
            wanted = self._typed(declared)
            wanted["metadata"] = {"name": name, **({"namespace": namespace} if namespace else {})}
            now = self._store.environment.now()
            new = fields.apply(tree.copy(self._there(existing, name)), wanted, self._manager, True, now)
            if row.schema is None:
                gvk = GroupVersionKind(row.group, row.version, row.kind)
                new = decode(new, gvk, self._store.type_of(row), "Ignore", lambda text: None)
            row.strategy.default(new)
            return new

        self._count("APPLY", subresource)
        return await self._write("PatchOptions", name, namespace, subresource, change)

    async def _write(
        self,
        options: str,
        name: str,
        namespace: str,
        subresource: str,
        change: Callable[[Object | None, Operation], Object],
        counted: int | None = None,
    ) -> Object:
        """What is stored after ``change``, which is asked anew for each state that other writers leave."""
        op = self._operation(namespace, name, options)
        op.subresource = self._subresource(subresource)
        op.counted = counted

        async def transform(existing: Object | None) -> Object:
            return change(existing, op)

        return (await self._converting(lambda: update(self._store, op, transform))).obj

    def _there(self, existing: Object | None, name: str) -> Object:
        if existing is None:
            raise status.not_found(self._store.group_resource, name)
        return existing

    def _converting(self, run: Callable[[], Awaitable[Stored]]) -> Awaitable[Stored]:
        """Objects of a former version may have to be converted by a webhook, which is asked first."""
        converter = self._store.row.converter
        return run() if converter is None else converting(converter, run)

    def _subresource(self, name: str) -> Subresource | None:
        if not name:
            return None
        sub = self._store.row.subresource(name)
        if sub is None:
            raise status.no_such_resource()
        return sub

    @_in_slices
    async def delete(self, name: str, namespace: str = "", options: Object | None = None) -> None:
        self._count("DELETE")
        op = self._operation(namespace, name, "DeleteOptions", options)
        await self._converting(lambda: delete(self._store, op))

    @_in_slices
    async def delete_collection(self, namespace: str = "", options: Object | None = None) -> None:
        self._count("DELETECOLLECTION")
        page = await read.list_page(self._store, namespace, None)

        async def delete_one(entry: Entry, outcome: Outcome) -> Stored:
            op = self._operation(entry.namespace, entry.name, "DeleteOptions", options)
            op.collection, op.outcome = True, outcome
            return await self._converting(lambda: delete(self._store, op))

        store = self._store
        await delete_all(store.store, page.entries, delete_one, store.environment.delete_workers, store.cache.call)

    def unreadable(self, namespace: str = "") -> builtins.list[tuple[str, str]]:
        keys = self._store.cache.unreadable_in(namespace)
        return [(place, name) for place, _, name in (key.rpartition("/") for key in keys)]

    def watch(self, handler: EventHandler, *, namespace: str = "", name: str = "") -> Callable[[], None]:
        self._count("WATCH")
        cache = self._store.cache
        deliveries = Deliveries(cache, handler)
        deliveries.source = subscription = Subscription(cache, deliveries.take, namespace, name)

        def stop() -> None:
            subscription.stop()
            deliveries.stop()

        return stop


class Subscription:
    """A watch inside the process that begins anew when the cache ends it, as a Reflector does.

    After a history that was lost, what is there is ADDED once more, and what is not there any more is DELETED.
    """

    def __init__(self, cache: Cache, on_batch: Callable[[Batch], None], namespace: str = "", name: str = "") -> None:
        self._cache = cache
        self._namespace, self._name = namespace, name
        self._on_batch = on_batch
        self._stopped = False
        self._paused = False
        self._known: dict[str, Entry] = {}
        self._before: dict[str, Entry] | None = (
            None  # what was known when the history was lost, and was not ADDED again
        )
        self._watch = self._start()

    def _start(self) -> Watch:
        return self._cache.watch(
            None,
            self._deliver,
            self._on_end,
            namespace=self._namespace,
            name=self._name,
            initial_events=True,
            initial_end=True,
        )

    def _deliver(self, batch: Batch) -> None:
        known, before = self._known, self._before
        for event in batch.events:
            entry = event.entry
            if entry is None:
                continue
            if event.type == DELETED:
                known.pop(entry.key, None)
            else:
                known[entry.key] = entry
            if before:
                before.pop(entry.key, None)
        if before is not None and batch.events[-1].initial_end:
            self._before = None
            if before:
                revision = batch.events[-1].revision
                gone = [WatchEvent(DELETED, revision, entry.at(revision), entry) for entry in before.values()]
                self._hand_on(Batch(gone))
        self._hand_on(batch)

    def _hand_on(self, batch: Batch) -> None:
        try:
            self._on_batch(batch)
        except Exception:  # a fault of this batch: the watch goes on
            log.failure("events of {resource} were not handled", resource=str(self._cache.resource))

    def _on_end(self, error: Exception | None) -> None:
        if (error is not None or self._watch.was_cut_off) and not self._stopped:
            self._before = {**(self._before or {}), **self._known}
            self._known = {}
            self._watch = self._start()
            if self._paused:
                self._watch.pause()

    def pause(self) -> None:
        """Nothing more is handed on until ``resume``; what is too much meanwhile is taken from the cache again."""
        self._paused = True
        self._watch.pause()

    def resume(self) -> None:
        self._paused = False
        self._watch.resume()

    def stop(self) -> None:
        self._stopped = True
        self._watch.stop()


class RegistryClient:
    """All stored resources.  ``manager`` is the field manager of what it writes."""

    def __init__(self, stores: Stores, user: UserInfo = LOOPBACK_USER, manager: str = "kapi") -> None:
        self._stores = stores
        self._user = user
        self._manager = manager

    def resource(self, group: str, plural: str) -> StoreClient:
        """Raises NotFound for a resource that is not stored now."""
        store = self._stores.get(GroupResource(group, plural))
        if store is None:
            raise status.no_such_resource()
        return StoreClient(store, self._user, self._manager)

    def resources(self) -> list[tuple[str, str, bool]]:
        return [(key.group, key.resource, row.namespaced) for key, row in self._stores.rows()]

    def named(self, manager: str) -> RegistryClient:
        """The same client writing under another field manager's name."""
        return RegistryClient(self._stores, self._user, manager)


class Listers(dict[GroupResource, CacheLister]):
    """Listers by resource, made when first asked for."""

    def __init__(self, stores: Stores) -> None:
        super().__init__()
        self._stores = stores

    def __missing__(self, key: GroupResource) -> CacheLister:
        lister = self[key] = CacheLister(self._stores[key])
        return lister

    def get(self, key: GroupResource, default: None = None) -> CacheLister | None:  # type: ignore[override]
        return self[key] if key in self._stores else default
