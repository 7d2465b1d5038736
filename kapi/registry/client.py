"""The in-process client over the registry: admission, validation and events as with HTTP, but without HTTP.

Its requests are counted (upstream: apiserver ``endpoints/metrics``, apiserver_selfrequest_total).  The client of a built-in
resource that ``--runtime-config`` or a feature gate has switched off finds nothing, watches nothing, and its writes raise
NotFound, so that its users work without the resource.
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import wraps
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.machinery import status, tree
from kapi.machinery.each import elements
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.gvk import GroupResource
from kapi.machinery.meters import counter
from kapi.machinery.tree import Object
from kapi.process.driver import Sliced
from kapi.registry import read
from kapi.registry.conversion import converting
from kapi.registry.create import create
from kapi.registry.delete import delete
from kapi.registry.delete import delete_collection as delete_all
from kapi.registry.deletions import PendingDeletion
from kapi.registry.deliveries import Deliveries
from kapi.registry.operation import Operation, Stored
from kapi.registry.resource_store import ResourceStore
from kapi.registry.stores import Stores
from kapi.registry.update import update
from kapi.request.user import LOOPBACK_USER, UserInfo
from kapi.resources.definition import Lister, Subresource
from kapi.runtime.interface import EventHandler, ResourceClient
from kapi.schema import mergepatch
from kapi.schema.decode import decode
from kapi.watchcache.cache import Batch, Cache, Entry, Watch, WatchEvent
from kapi.watchcache.event import DELETED
from kapi.watchcache.unreadable import Unreadable

SELF_REQUESTS = counter("apiserver_selfrequest_total")
log = Logger()
RESTART_SECONDS = 1.0  # delay of a new watch after a fault has ended the last one: the fault may come again
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class AbsentLister:
    changes = 0

    def get(self, namespace: str, name: str) -> Object | None:
        return None

    def list(self, namespace: str = "") -> builtins.list[Object]:
        return []

    def labelled(self, labels: Mapping[str, str], namespace: str = "") -> builtins.list[Object]:
        return []


class AbsentResource:
    """See ``ResourceClient``."""

    lister = AbsentLister()
    history = None

    async def get(self, name: str, namespace: str = "") -> NoReturn:
        raise status.no_such_resource()

    async def list(self, namespace: str = "") -> builtins.list[Object]:
        return []

    async def list_at(self, namespace: str = "") -> tuple[builtins.list[Object], int]:
        return [], 0

    async def count_at(self, namespace: str = "") -> tuple[int, int]:
        return 0, 0

    async def create(self, obj: Object, namespace: str = "") -> NoReturn:
        raise status.no_such_resource()

    async def update(
        self, obj: Object, namespace: str = "", subresource: str = "", *, counted: int | None = None
    ) -> NoReturn:
        raise status.no_such_resource()

    async def patch(self, name: str, patch: Object, namespace: str = "", subresource: str = "") -> NoReturn:
        raise status.no_such_resource()

    async def apply(self, name: str, declared: Object, namespace: str = "", subresource: str = "") -> NoReturn:
        raise status.no_such_resource()

    async def delete(self, name: str, namespace: str = "", options: Object | None = None) -> NoReturn:
        raise status.no_such_resource()

    async def delete_collection(self, namespace: str = "", options: Object | None = None) -> None:
        return

    def unreadable(self, namespace: str = "") -> builtins.list[tuple[str, str]]:
        return []

    def watch(self, handler: EventHandler, *, namespace: str = "", name: str = "") -> Callable[[], None]:
        return lambda: None


class CacheLister:
    """Decoded objects of a cache.  They are shared: never change them."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store

    def get(self, namespace: str, name: str) -> Object | None:
        """The object, or None when it does not exist or cannot be decoded."""
        try:
            entry = self._store.cache.get(namespace, name)
            return None if entry is None else entry.object
        except Unreadable:
            return None

    def list(self, namespace: str = "") -> list[Object]:
        return self._store.cache.objects(namespace)

    def labelled(self, labels: Mapping[str, str], namespace: str = "") -> builtins.list[Object]:
        return self._store.cache.objects(namespace, labels)

    @property
    def changes(self) -> int:
        return self._store.cache.changes


def _in_slices(
    verb: Callable[Concatenate[StoreClient, Arguments], Coroutine[Deferred[object], object, Result]],
) -> Callable[Concatenate[StoreClient, Arguments], Coroutine[Deferred[object], object, Result]]:
    """A decorator: the verb runs in slices (ADR 18), also after each of its waits."""

    @wraps(verb)
    async def run(client: StoreClient, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        result: Result = await Sliced(verb(client, *args, **kwargs), client._store.cache.call).done
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
        options = {"kind": kind, "apiVersion": "meta.k8s.io/v1", **(options or {})}
        return Operation(
            self._store.row, namespace, name, user=self._user, field_manager=self._manager, options=options
        )

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
        for entry in elements(page.entries):
            found.append(entry.object)
            size += len(entry.data)
        free_in_steps(found, size)
        return found, page.revision

    @_in_slices
    async def count_at(self, namespace: str = "") -> tuple[int, int]:
        self._count("LIST")
        page = await read.list_page(self._store, namespace, None)
        return len(page.entries), page.revision

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
            new: Object = mergepatch.apply(tree.copy(self._existing(existing, name)), tree.copy(patch))
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
            applied = self._typed(declared)
            applied["metadata"] = {"name": name, **({"namespace": namespace} if namespace else {})}
            now = self._store.environment.now()
            new = fields.apply(tree.copy(self._existing(existing, name)), applied, self._manager, True, now)
            if row.schema is None:
                gvk = row.group_version_kind
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
        """Stores what ``change`` makes of the object and returns it.  ``change`` is called again after a conflict."""
        op = self._operation(namespace, name, options)
        op.subresource = self._subresource(subresource)
        op.counted = counted

        async def transform(existing: Object | None) -> Object:
            return change(existing, op)

        return (await self._converting(lambda: update(self._store, op, transform))).obj

    def _existing(self, existing: Object | None, name: str) -> Object:
        """Raises NotFound for None."""
        if existing is None:
            raise status.not_found(self._store.group_resource, name)
        return existing

    def _converting(self, run: Callable[[], Awaitable[Stored]]) -> Awaitable[Stored]:
        """Runs a write; stored objects of another version may first have to be converted by a webhook."""
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

        async def delete_one(entry: Entry, pending: PendingDeletion) -> Stored:
            op = self._operation(entry.namespace, entry.name, "DeleteOptions", options)
            op.collection, op.pending = True, pending
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
        deliveries.source = reflector = CacheReflector(cache, deliveries.take, namespace, name)

        def stop() -> None:
            reflector.stop()
            deliveries.stop()

        return stop


class CacheReflector:
    """A watch of a cache that starts again whenever the cache ends it, as client-go's Reflector does.

    When history was lost, all objects are delivered again as ADDED, then the objects that have disappeared as DELETED.  The same
    happens RESTART_SECONDS after a fault of the server.
    """

    def __init__(self, cache: Cache, on_batch: Callable[[Batch], None], namespace: str = "", name: str = "") -> None:
        self._cache = cache
        self._namespace, self._name = namespace, name
        self._on_batch = on_batch
        self._stopped = False
        self._paused = False
        self._known: dict[str, Entry] = {}
        #: while history is read again: earlier entries that were not delivered again so far
        self._unconfirmed: dict[str, Entry] | None = None
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
        known, unconfirmed = self._known, self._unconfirmed
        for event in batch.events:
            entry = event.entry
            if entry is None:
                continue
            if event.type == DELETED:
                known.pop(entry.key, None)
            else:
                known[entry.key] = entry
            if unconfirmed:
                unconfirmed.pop(entry.key, None)
        if unconfirmed is not None and batch.events[-1].initial_end:
            self._unconfirmed = None
            if unconfirmed:
                revision = batch.events[-1].revision
                gone = [WatchEvent(DELETED, revision, entry.at(revision), entry) for entry in unconfirmed.values()]
                self._dispatch(Batch(gone))
        self._dispatch(batch)

    def _dispatch(self, batch: Batch) -> None:
        try:
            self._on_batch(batch)
        except Exception:  # a fault in one batch must not end the watch
            log.failure("events of {resource} were not handled", resource=str(self._cache.resource))

    def _on_end(self, error: Exception | None) -> None:
        if self._watch.failed:
            self._cache.later(self._begin_anew, RESTART_SECONDS)
        elif error is not None or self._watch.was_cut_off:
            self._begin_anew()

    def _begin_anew(self) -> None:
        if self._stopped:
            return
        self._unconfirmed = {**(self._unconfirmed or {}), **self._known}
        self._known = {}
        try:
            self._watch = self._start()
        except Exception:
            log.failure("watching {resource} cannot be begun now", resource=str(self._cache.resource))
            self._cache.later(self._begin_anew, RESTART_SECONDS)
            return
        if self._paused:
            self._watch.pause()

    def pause(self) -> None:
        """Stops deliveries until ``resume``.  If the watch's queue overflows meanwhile, it starts again."""
        self._paused = True
        self._watch.pause()

    def resume(self) -> None:
        self._paused = False
        self._watch.resume()

    def stop(self) -> None:
        self._stopped = True
        self._watch.stop()


class RegistryClient:
    """All stored resources.  ``manager`` is the field manager of its writes."""

    def __init__(self, stores: Stores, user: UserInfo = LOOPBACK_USER, manager: str = "kube-apiserver") -> None:
        self._stores = stores
        self._user = user
        self._manager = manager

    def resource(self, group: str, plural: str) -> ResourceClient:
        """Raises NotFound for a resource that is not stored now, unless it is a built-in one that is switched off."""
        store = self._stores.get(GroupResource(group, plural))
        if store is not None:
            return StoreClient(store, self._user, self._manager)
        if self.has(group, plural):
            raise status.no_such_resource()
        return AbsentResource()

    def has(self, group: str, plural: str) -> bool:
        return not self._stores.is_off(GroupResource(group, plural), self._manager)

    def resources(self) -> list[tuple[str, str, bool]]:
        return [(key.group, key.resource, row.namespaced) for key, row in self._stores.rows()]

    def named(self, manager: str) -> RegistryClient:
        """The same client writing under another field manager's name."""
        return RegistryClient(self._stores, self._user, manager)


class Listers(dict[GroupResource, Lister]):
    """Listers by resource, made on first use."""

    def __init__(self, stores: Stores) -> None:
        super().__init__()
        self._stores = stores

    def __missing__(self, key: GroupResource) -> Lister:
        lister = self[key] = AbsentLister() if key in self._stores.off else CacheLister(self._stores[key])
        return lister

    def get(self, key: GroupResource, default: None = None) -> Lister | None:  # type: ignore[override]
        return self[key] if key in self._stores else default
