"""All stored resources of a server: built-in ones at start, custom ones as they come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kapi.admission.interface import AdmissionChain
from kapi.machinery.gvk import GroupResource
from kapi.registry.client import Listers, RegistryClient
from kapi.registry.environment import Environment
from kapi.registry.resource_store import ResourceStore
from kapi.registry.stores import LazyStores, Stores
from kapi.resources.definition import Resource
from kapi.store.interface import Store
from kapi.watchcache.split_caches import AnyCaches

_QUOTAS = GroupResource("", "resourcequotas")
#: returns fields of a row that replace those of the catalogue
Amendment = Callable[[], Mapping[str, object]]


class Registry:
    """One ResourceStore per stored resource, over the caches of one store or of several; ``store`` is the main one.

    ``lazy_rows`` are the rows of another registry: a ResourceStore is made on first use, and its cache on the first read.
    Logical clusters use this, since there may be thousands of them.
    """

    def __init__(
        self,
        store: Store,
        caches: AnyCaches,
        admission: AdmissionChain,
        environment: Environment,
        *,
        lazy_rows: Mapping[GroupResource, Resource] | None = None,
    ) -> None:
        self.store = store
        self.caches = caches
        self.admission = admission
        self.environment = environment
        self.lazy = lazy_rows is not None
        #: the rows that were added, without amendments
        self.rows: dict[GroupResource, Resource] = {}
        self._amendments: dict[GroupResource, Amendment] = {}
        environment.quotas = caches.of(_QUOTAS).store
        self.stores: Stores = Stores() if lazy_rows is None else LazyStores(lazy_rows, self._make_store)
        environment.listers = self._listers = Listers(self.stores)
        self.client = RegistryClient(self.stores)

    def add(self, row: Resource) -> ResourceStore:
        """The store of a row's resource; a second version of the same resource shares the first one's."""
        key = row.storage_resource
        found = self.stores.get(key)
        if found is None:
            caches = self.caches.of(key)
            cache = caches.cache(key, row.selectable_fields, row.namespaced)
            found = self.stores[key] = ResourceStore(row, cache, caches.store, self.admission, self.environment)
            self.rows[key] = row
        return found

    def _make_store(self, key: GroupResource, row: Resource) -> ResourceStore:
        caches = self.caches.of(key)
        store = ResourceStore(row, caches.cache, caches.store, self.admission, self.environment)
        amend = self._amendments.get(key)
        if amend is not None:
            store.row = replace(row, **amend())  # type: ignore[arg-type]
        return store

    def amend(self, resource: GroupResource, amendment: Amendment) -> None:
        """Replaces fields of a built-in resource's row by values that need this registry.  Call it once for each resource."""
        store = self.stores.made(resource)
        if store is not None:
            store.row = replace(store.row, **amendment())  # type: ignore[arg-type]
        else:
            self._amendments[resource] = amendment

    def put(self, resource: GroupResource, store: ResourceStore) -> None:
        """Serves a resource by a new ResourceStore, since its definition has changed."""
        self.stores[resource] = store
        self._listers.pop(resource, None)

    def admit_by(self, chain: AdmissionChain) -> None:
        """Sets the admission chain.  Call it after the resources are added: plugins read from this registry."""
        self.admission = chain
        for store in self.stores.values():
            store.admission = chain

    def remove(self, resource: GroupResource) -> None:
        """Stops serving a resource; its objects stay in the store."""
        if self.stores.pop(resource, None) is not None:
            self.caches.remove(resource)
            self._listers.pop(resource, None)
