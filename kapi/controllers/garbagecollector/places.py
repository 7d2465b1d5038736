"""Finds the objects of a kind: the garbage collector's interface of a resource, and the resource of a kind.

Upstream: the RESTMapper.  The served resources change with custom resources and aggregated servers; followers are then notified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from kapi.controllers.garbagecollector.elsewhere import RemotePlace, Remotes
from kapi.controllers.garbagecollector.metadata import UNREADABLE, Metadata, read, uid_of
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.tree import Object
from kapi.registry.client import RegistryClient
from kapi.registry.registry import Registry
from kapi.registry.resource_store import ResourceStore
from kapi.runtime.interface import ResourceClient
from kapi.watchcache.unreadable import Unreadable

_NAMESPACES = GroupResource("", "namespaces")


class Place(Protocol):
    """One resource.  Asynchronous methods raise StatusError."""

    resource: GroupResource
    namespaced: bool

    def surely_has(self, namespace: str, name: str, uid: str) -> bool:
        """Whether the object is known to exist, without a request."""

    async def metadata(self, namespace: str, name: str) -> Metadata | None:
        """None when there is no such object."""

    async def tree(self, namespace: str, name: str) -> Object | None:
        """None when there is no such object."""

    async def somewhere(self, name: str, uid: str) -> bool:
        """Whether the object is in any namespace."""

    async def patch(self, namespace: str, name: str, patch: Object) -> None: ...

    async def delete(self, namespace: str, name: str, options: Object) -> None: ...


class Stored:
    """A resource in the store, read from its watch cache.  Call ``fresh`` first when the newest state is needed."""

    def __init__(self, store: ResourceStore, namespaces: ResourceStore | None, client: ResourceClient) -> None:
        self.resource = store.group_resource
        self.namespaced = store.row.namespaced
        self._cache = store.cache
        self._namespaces = namespaces
        self._client = client

    def surely_has(self, namespace: str, name: str, uid: str) -> bool:
        try:
            entry = self._cache.get(namespace, name)
            return entry is not None and uid_of(entry.data) == uid
        except (Unreadable, *UNREADABLE):
            return False

    async def metadata(self, namespace: str, name: str) -> Metadata | None:
        waiting = self._cache.wait_fresh()
        if waiting is not None:
            await waiting
        try:
            entry = self._cache.get(namespace, name)
            return None if entry is None else read(entry.data)
        except (Unreadable, *UNREADABLE) as error:
            raise status.generic(str(error)) from None

    async def tree(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._client.get(name, namespace)
        except status.NotFound:
            return None

    async def somewhere(self, name: str, uid: str) -> bool:
        if not self.namespaced or self._namespaces is None:
            return self.surely_has("", name, uid)
        return any(self.surely_has(entry.name, name, uid) for entry in elements(self._namespaces.cache.list()[0]))

    async def patch(self, namespace: str, name: str, patch: Object) -> None:
        await self._client.patch(name, patch, namespace)

    async def delete(self, namespace: str, name: str, options: Object) -> None:
        await self._client.delete(name, namespace, options)


class Places:
    """All resources of a server.  ``tables`` have the served resources; ``remotes`` are resources of other servers."""

    def __init__(
        self,
        registry: Registry,
        tables: Sequence[ResourceTable],
        client: RegistryClient,
        remotes: Remotes | None = None,
    ) -> None:
        self._registry = registry
        self._tables = tables
        self._client = client
        self.remotes = remotes
        self._kinds: dict[tuple[str, str], GroupResource] | None = None
        self._stored: dict[GroupResource, tuple[ResourceStore, Stored]] = {}
        #: called when served resources were added or removed
        self.listeners: list[Callable[[], None]] = []
        for table in tables:
            table.on_change.append(self._table_changed)
        if remotes is not None:
            remotes.listeners.append(self.changed)

    def _table_changed(self, group_version: GroupVersion) -> None:
        self.changed()

    def changed(self) -> None:
        self._kinds = None
        for listener in list(self.listeners):
            listener()

    def find(self, api_version: str, kind: str) -> Place | None:
        """The place of the objects of a kind; None while this version is not served."""
        if self._kinds is None:
            self._kinds = dict(self._served())
        resource = self._kinds.get((api_version, kind))
        if resource is not None:
            return self.of(resource)
        if self.remotes is None:
            return None
        remote = self.remotes.find(GroupVersion.parse(api_version), kind)
        return None if remote is None else RemotePlace(remote)

    def _served(self) -> Iterable[tuple[tuple[str, str], GroupResource]]:
        for table in self._tables:
            for row in table.resources():
                if not row.handler and "delete" in row.verbs:
                    yield (str(row.group_version), row.kind), row.storage_resource

    def of(self, resource: GroupResource) -> Place | None:
        """The place of a resource; None when it is not served (any more)."""
        store = self._registry.stores.get(resource)
        if store is None:
            remote = None if self.remotes is None else self.remotes.of(resource)
            return None if remote is None else RemotePlace(remote)
        known = self._stored.get(resource)
        if known is None or known[0] is not store:
            client = self._client.resource(resource.group, resource.resource)
            known = self._stored[resource] = store, Stored(store, self._registry.stores.get(_NAMESPACES), client)
        return known[1]
