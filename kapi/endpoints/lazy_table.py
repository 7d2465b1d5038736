"""A table that serves the same resources as another one, from other stores: made lazily, since there may be thousands of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.scope import RequestScope
from kapi.machinery.gvk import GroupResource
from kapi.registry.resource_store import ResourceStore
from kapi.resources.definition import Resource

Key = TypeVar("Key", bound=tuple[str, ...])


class LazyScopes(dict[Key, RequestScope]):
    """The scopes of ``others`` with stores of their own, each made on first use."""

    def __init__(self, others: dict[Key, RequestScope], store: Callable[[GroupResource], ResourceStore]) -> None:
        super().__init__()
        self._others = others
        self._store = store

    def get(self, key: Key, default: None = None) -> RequestScope | None:  # type: ignore[override]
        found = super().get(key)
        if found is None:
            other = self._others.get(key)
            if other is None:
                return default
            row = other.resource
            store = None if row.handler else self._store(row.storage_resource)
            found = self[key] = RequestScope(row, store, other.subresource)  # type: ignore[arg-type]
        return found

    def everything(self) -> Iterable[RequestScope]:
        """All scopes; makes those that are missing."""
        return (scope for key in self._others if (scope := self.get(key)) is not None)


class LazyTable(ResourceTable):
    """Serves the resources of ``like``, which must not change.  ``handlers`` must be set by the caller."""

    def __init__(self, like: ResourceTable, store: Callable[[GroupResource], ResourceStore]) -> None:
        super().__init__()
        self._like = like
        self._scopes = self._all = LazyScopes(like._scopes, store)
        self._subresources = LazyScopes(like._subresources, store)
        self._groups, self._versions = like._groups, like._versions

    def add(self, resource: Resource, store: ResourceStore | None) -> None:
        raise TypeError("what is served here is another table's affair")

    def remove(self, group: str, version: str, plural: str) -> None:
        raise TypeError("what is served here is another table's affair")

    def scopes(self) -> Iterable[RequestScope]:
        return self._all.everything()

    def resources(self) -> Iterable[Resource]:
        return self._like.resources()
