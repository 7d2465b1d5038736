"""The ResourceStores of a registry by their resources: all made at the start, or each when somebody first asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kapi.machinery.gvk import GroupResource
from kapi.registry.resource_store import ResourceStore
from kapi.resources.definition import Resource


class Stores(dict[GroupResource, ResourceStore]):
    """Those that there are."""

    def made(self, resource: GroupResource) -> ResourceStore | None:
        """That of a resource, if it is made."""
        return super().get(resource)

    def rows(self) -> Iterator[tuple[GroupResource, Resource]]:
        """Each stored resource with the row of its storage version."""
        return ((resource, store.row) for resource, store in self.items())


class LateStores(Stores):
    """Of ``rows``, which belong to several registries, and of what is put in besidessss; what is not made yet is not iterated."""

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
