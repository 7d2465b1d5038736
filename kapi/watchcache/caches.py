"""All watch caches of one store, fed by one reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kapi.machinery.gvk import GroupResource
from kapi.store.interface import Store
from kapi.watchcache.cache import Cache


class Caches:
    """Hands out a Cache per stored resource; resources may come and go at run time (CRDs)."""

    def __init__(self, store: Store, reactor: Any) -> None: ...

    ready: bool  # loaded

    def cache(
        self,
        resource: GroupResource,
        fields: Mapping[str, Callable[[dict[str, Any]], str]] | None = None,
        namespaced: bool = True,
    ) -> Cache:
        """The resource's cache, the same one each time; ``fields`` replaces the selectable fields."""
        raise NotImplementedError

    def remove(self, resource: GroupResource) -> None:
        """Ends all its watches (a CRD was deleted)."""

    async def start(self) -> None:
        """Starts the store and loads everything.  Raises UnsuitableStore, StoreUnavailable."""

    async def stop(self) -> None:
        """Ends all watches and the store."""
