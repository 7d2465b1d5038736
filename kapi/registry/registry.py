"""All stored resources of a server: built-in ones at start, custom ones as they come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kapi.admission.interface import AdmissionChain
from kapi.machinery.gvk import GroupResource
from kapi.registry.client import Listers, RegistryClient
from kapi.registry.environment import Environment
from kapi.registry.resource_store import ResourceStore
from kapi.registry.stores import LateStores, Stores
from kapi.resources.definition import Resource
from kapi.store.interface import Store
from kapi.watchcache.split_caches import AnyCaches

_QUOTAS = GroupResource("", "resourcequotas")
#: fields of a row, or what makes them when the resource is first needed
Amendment = Callable[[], Mapping[str, object]]


class Registry:
    """One ResourceStore per stored resource, over the caches of one store or of several; ``store`` is the main one.

    ``late`` are the rows of another registry: what belongs to them is made when it is first needed, and a resource's cache
    when somebody looks into it.  That is for registries of which there are thousands.
    """

    def __init__(
        self,
        store: Store,
        caches: AnyCaches,
        admission: AdmissionChain,
        environment: Environment,
        *,
        late: Mapping[GroupResource, Resource] | None = None,
    ) -> None:
        self.store = store
        self.caches = caches
        self.admission = admission
        self.environment = environment
        self.late = late is not None
        #: of what is built in: each as it was added, without amendments
        self.rows: dict[GroupResource, Resource] = {}
        self._amendments: dict[GroupResource, Amendment] = {}
        environment.quotas = caches.of(_QUOTAS).store
        self.stores: Stores = Stores() if late is None else LateStores(late, self._made)
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

    def _made(self, key: GroupResource, row: Resource) -> ResourceStore:
        caches = self.caches.of(key)
        store = ResourceStore(row, caches.cache, caches.store, self.admission, self.environment)
        amend = self._amendments.get(key)
        if amend is not None:
            store.row = replace(row, **amend())  # type: ignore[arg-type]
        return store

    def amend(self, resource: GroupResource, amendment: Amendment) -> None:
        """Gives the row of a built-in resource further fields: those that lead to this registry.  Once for each resource."""
        store = self.stores.made(resource)
        if store is not None:
            store.row = replace(store.row, **amendment())  # type: ignore[arg-type]
        else:
            self._amendments[resource] = amendment

    def put(self, resource: GroupResource, store: ResourceStore) -> None:
        """Serves a resource from another store than before: that of a definition that has changed."""
        self.stores[resource] = store
        self._listers.pop(resource, None)

    def admit_by(self, chain: AdmissionChain) -> None:
        """From now on this chain admits what is written.  Its plugins read from this registry: it comes after the resources."""
        self.admission = chain
        for store in self.stores.values():
            store.admission = chain

    def remove(self, resource: GroupResource) -> None:
        """Forgets a resource; its objects stay in the store."""
        if self.stores.pop(resource, None) is not None:
            self.caches.remove(resource)
            self._listers.pop(resource, None)
