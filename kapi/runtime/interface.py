"""The in-process client, by which controllers, admission plugins and allocators read and write.

Writes go through the registry (admission and audit see them); reads come from the watch cache.  Objects that come
from a lister or a watch are shared: copy before changing (``kapi.machinery.tree.copy``).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Protocol

from kapi.machinery.tree import Object
from kapi.resources.definition import Lister

#: called with ("ADDED" | "MODIFIED" | "DELETED", object, previous object or None)
EventHandler = Callable[[str, Object, "Object | None"], None]


class ResourceClient(Protocol):
    """One resource.  ``namespace`` is "" for cluster-scoped resources.  Raises StatusError, as the API answers."""

    @property
    def lister(self) -> Lister: ...

    @property
    def history(self) -> object:
        """Identifies the store whose revisions these are: revisions of different histories cannot be compared."""

    async def get(self, name: str, namespace: str = "") -> Object: ...

    async def list(self, namespace: str = "") -> builtins.list[Object]:
        """The objects in the cache, which has all writes of this process; "" means all namespaces."""

    async def list_at(self, namespace: str = "") -> tuple[builtins.list[Object], int]:
        """``list``, with the revision of the list."""

    async def count_at(self, namespace: str = "") -> tuple[int, int]:
        """The number of objects that ``list_at`` would return, without decoding them; with the revision."""

    async def create(self, obj: Object, namespace: str = "") -> Object: ...

    async def update(
        self, obj: Object, namespace: str = "", subresource: str = "", *, counted: int | None = None
    ) -> Object:
        """Optimistic: the object's resourceVersion must be the stored one.

        ``counted`` is for accounts such as quotas (``kapi.store.interface``): the revision at which the usage was counted.
        """

    async def patch(self, name: str, patch: Object, namespace: str = "", subresource: str = "") -> Object:
        """A JSON merge patch."""

    async def apply(self, name: str, declared: Object, namespace: str = "", subresource: str = "") -> Object:
        """Server-side apply with ``force``, to an object that exists."""

    async def delete(self, name: str, namespace: str = "", options: Object | None = None) -> None: ...

    async def delete_collection(self, namespace: str = "", options: Object | None = None) -> None: ...

    def unreadable(self, namespace: str = "") -> builtins.list[tuple[str, str]]:
        """Namespace and name of each stored object that cannot be decoded; lists leave these out."""

    def watch(self, handler: EventHandler, *, namespace: str = "", name: str = "") -> Callable[[], None]:
        """Calls the handler for every object that exists, then for every change; returns the function that stops it.

        With ``namespace`` or ``name`` only for objects with these; other objects are not decoded.
        """


class Client(Protocol):
    def resource(self, group: str, plural: str) -> ResourceClient:
        """The client of a resource.  A disabled built-in resource has no objects, and its writes raise NotFound."""

    def has(self, group: str, plural: str) -> bool:
        """False for a disabled built-in resource, which is logged once: the caller works without it."""

    def resources(self) -> list[tuple[str, str, bool]]:
        """(group, plural, namespaced) of all currently stored resources, also custom ones."""
