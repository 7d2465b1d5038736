"""The in-process client's interface over the network: a controller for ``kapi.runtime.interface`` runs on any cluster with it.

Listers and watches read from informers, one for each used resource; all other operations are requests.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping

from kapi.client.discovery import APIResource
from kapi.client.dynamic import DynamicClient, ResourceInterface
from kapi.client.errors import NoMatch
from kapi.client.mapper import preferred
from kapi.machinery.selectors import with_labels
from kapi.machinery.tree import Object
from kapi.runtime.informer import SharedInformer
from kapi.runtime.reflector import typed_items

EventHandler = Callable[[str, Object, "Object | None"], None]


class RemoteClient:
    """A ``kapi.runtime.interface.Client``.  ``await RemoteClient.connected(client)`` makes one; ``stop`` ends its informers."""

    def __init__(self, client: DynamicClient, known: builtins.list[APIResource]) -> None:
        self._client = client
        self._known = {(one.group, one.name): one for one in known}
        self._resources: dict[tuple[str, str], RemoteResource] = {}

    @classmethod
    async def connected(cls, client: DynamicClient) -> RemoteClient:
        """A client for the current resources of the server."""
        return cls(client, list(preferred(await client.mapper.discovered())))

    def resource(self, group: str, plural: str) -> RemoteResource:
        """Raises NoMatch."""
        found = self._resources.get((group, plural))
        if found is None:
            mapping = self._known.get((group, plural))
            if mapping is None:
                raise NoMatch(f'the server doesn\'t have a resource type "{plural}" in group "{group}"')
            found = self._resources[group, plural] = RemoteResource(self._client.of(mapping))
        return found

    def has(self, group: str, plural: str) -> bool:
        """Whether the server has the resource."""
        return (group, plural) in self._known

    def resources(self) -> builtins.list[tuple[str, str, bool]]:
        """The resources that can be listed, watched and deleted."""
        return [
            (one.group, one.name, one.namespaced)
            for one in self._known.values()
            if {"list", "watch", "delete"} <= set(one.verbs)
        ]

    async def synced(self) -> None:
        """Waits until all informers have synced.  Raises CancelledError when one is stopped before that."""
        for one in list(self._resources.values()):
            await one.informer.synced()

    def stop(self) -> None:
        for one in self._resources.values():
            one.stop()


class RemoteLister:
    """Reads from an informer.  Objects are shared."""

    def __init__(self, informer: SharedInformer) -> None:
        self._informer = informer

    def get(self, namespace: str, name: str) -> Object | None:
        return self._informer.store.get(f"{namespace}/{name}" if namespace else name)

    def list(self, namespace: str = "") -> builtins.list[Object]:
        store = self._informer.store
        return store.by_index("namespace", namespace) if namespace else store.list()

    def labelled(self, labels: Mapping[str, str], namespace: str = "") -> builtins.list[Object]:
        return with_labels(labels, self.list(namespace))

    @property
    def changes(self) -> int:
        return self._informer.store.changes


class RemoteResource:
    """A ``kapi.runtime.interface.ResourceClient``."""

    history = ""  # not needed: there are no accounts over the network (see ``update``)

    def __init__(self, resource: ResourceInterface) -> None:
        self._resource = resource
        self._informer: SharedInformer | None = None

    @property
    def informer(self) -> SharedInformer:
        """The resource's informer, started when it is first used."""
        if self._informer is None:
            self._informer = SharedInformer(self._resource)
            self._informer.start()
        return self._informer

    @property
    def lister(self) -> RemoteLister:
        return RemoteLister(self.informer)

    def _typed(self, obj: Object) -> Object:
        """The object with apiVersion and kind, which objects in the process need not have."""
        mapping = self._resource.resource
        return {"apiVersion": mapping.group_version, "kind": mapping.kind, **obj}

    def stop(self) -> None:
        if self._informer is not None:
            self._informer.stop()

    async def get(self, name: str, namespace: str = "") -> Object:
        return await self._resource.namespace(namespace).get(name)

    async def list(self, namespace: str = "") -> builtins.list[Object]:
        return (await self.list_at(namespace))[0]

    async def list_at(self, namespace: str = "") -> tuple[builtins.list[Object], int]:
        page = await self._resource.namespace(namespace).list()
        return typed_items(page), int(page["metadata"]["resourceVersion"])

    async def count_at(self, namespace: str = "") -> tuple[int, int]:
        page = await self._resource.namespace(namespace).list(limit=1)
        metadata = page["metadata"]
        return len(page["items"]) + int(metadata.get("remainingItemCount") or 0), int(metadata["resourceVersion"])

    async def create(self, obj: Object, namespace: str = "") -> Object:
        return await self._resource.namespace(namespace).create(self._typed(obj))

    async def update(
        self, obj: Object, namespace: str = "", subresource: str = "", *, counted: int | None = None
    ) -> Object:
        """``counted`` is for accounts in the server's own store; it has no effect here."""
        return await self._resource.namespace(namespace).update(self._typed(obj), subresource)

    async def patch(self, name: str, patch: Object, namespace: str = "", subresource: str = "") -> Object:
        return await self._resource.namespace(namespace).patch(name, patch, "merge", subresource)

    async def apply(self, name: str, declared: Object, namespace: str = "", subresource: str = "") -> Object:
        resource = self._resource.namespace(namespace)
        return await resource.apply(
            name, self._typed(declared), manager="kapi-client", force=True, subresource=subresource
        )

    async def delete(self, name: str, namespace: str = "", options: Object | None = None) -> None:
        await self._resource.namespace(namespace).delete(name, options)

    async def delete_collection(self, namespace: str = "", options: Object | None = None) -> None:
        await self._resource.namespace(namespace).delete_collection(options)

    def unreadable(self, namespace: str = "") -> builtins.list[tuple[str, str]]:
        """Always empty, since the API does not list such objects."""
        return []

    def watch(self, handler: EventHandler, *, namespace: str = "", name: str = "") -> Callable[[], None]:
        """See ``kapi.runtime.interface``."""

        def meant(obj: Object) -> bool:
            metadata = obj["metadata"]
            return (not namespace or metadata.get("namespace") == namespace) and (not name or metadata["name"] == name)

        def call(kind: str, obj: Object, previous: Object | None) -> None:
            if meant(obj):
                handler(kind, obj, previous)

        registered = self.informer.add_handler(
            on_add=lambda obj: call("ADDED", obj, None),
            on_update=lambda old, new: call("MODIFIED", new, old),
            on_delete=lambda obj: call("DELETED", obj, obj),
        )
        return registered.remove
