"""The ResourceStores of a registry, by resource: all made at the start, or each on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kapi.machinery.gvk import GroupResource
from kapi.registry.resource_store import ResourceStore
from kapi.resources.definition import Resource


class Stores(dict[GroupResource, ResourceStore]):
    """ResourceStores that are made when they are added."""

    def made(self, resource: GroupResource) -> ResourceStore | None:
        """The store of a resource if it has been made, else None: never makes one."""
        return super().get(resource)

    def rows(self) -> Iterator[tuple[GroupResource, Resource]]:
        """Each stored resource with the row of its storage version."""
        return ((resource, store.row) for resource, store in self.items())


class LazyStores(Stores):
    """Stores of ``rows``, each made on first use, and those that are added.  Iteration shows only what has been made.

    ``rows`` may be shared by several registries.
    """

    def __init__(
        self, rows: Mapping[GroupResource, Resource], make: Callable[[GroupResource, Resource], ResourceStore]
    ) -> None:
        super().__init__()
        self._rows = rows
        self._make = make

    def __missing__(self, resource: GroupResource) -> ResourceStore:
        store = self[resource] = self._make(resource, self._rows[resource])
        return store

    def __contains__(self, resource: object) -> bool:
        return super().__contains__(resource) or resource in self._rows

    def get(self, resource: GroupResource, default: None = None) -> ResourceStore | None:  # type: ignore[override]
        """None for what is not stored."""
        return self[resource] if resource in self else default

    def rows(self) -> Iterator[tuple[GroupResource, Resource]]:
        for resource, row in self._rows.items():
            if not super().__contains__(resource):
                yield resource, row
        yield from super().rows()
