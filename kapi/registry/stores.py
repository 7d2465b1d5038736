"""The ResourceStores of a registry, by resource: all made at the start, or each on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from twisted.logger import Logger

from kapi.machinery.gvk import GroupResource
from kapi.registry.resource_store import ResourceStore
from kapi.resources.definition import Resource


class Stores(dict[GroupResource, ResourceStore]):
    """ResourceStores that are made when they are added.

    ``off`` are the built-in resources that are switched off; the value says whether they are on by default.
    """

    log = Logger()

    def __init__(self) -> None:
        super().__init__()
        self.off: Mapping[GroupResource, bool] = {}
        self._missed: set[tuple[GroupResource, str]] = set()

    def is_off(self, resource: GroupResource, user: str) -> bool:
        """Whether a built-in resource is switched off.  If it is on by default, logs once for each user that needs it."""
        on_by_default = self.off.get(resource)
        if on_by_default is None:
            return False
        if on_by_default and (resource, user) not in self._missed:
            self._missed.add((resource, user))
            self.log.warn("{resource} is switched off: {user} does without it", resource=str(resource), user=user)
        return True

    def made(self, resource: GroupResource) -> ResourceStore | None:
        """The store of a resource if it has been made, else None: never makes one."""
        return super().get(resource)

    def rows(self) -> Iterator[tuple[GroupResource, Resource]]:
        """Each stored resource with the row of its storage version."""
        return ((resource, store.row) for resource, store in self.items())


class LazyStores(Stores):
    """ResourceStores of ``rows``, each made on first use, and added ones.  Iteration yields only stores that were made.

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
        """The store of a resource; None when it is not stored."""
        return self[resource] if resource in self else default

    def rows(self) -> Iterator[tuple[GroupResource, Resource]]:
        for resource, row in self._rows.items():
            if not super().__contains__(resource):
                yield resource, row
        yield from super().rows()
