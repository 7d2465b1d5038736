"""All stored resources of a server: built-in ones at start, custom ones as they come and go."""

from __future__ import annotations

from kapi.admission.interface import AdmissionChain
from kapi.machinery.gvk import GroupResource
from kapi.registry.client import Listers, RegistryClient
from kapi.registry.environment import Environment
from kapi.registry.resource_store import ResourceStore
from kapi.resources.definition import Resource
from kapi.store.interface import Store
from kapi.watchcache.split_caches import AnyCaches

_QUOTAS = GroupResource("", "resourcequotas")


class Registry:
    """One ResourceStore per stored resource, over the caches of one store or of several; ``store`` is the main one.

    With ``late`` a resource's cache is made when it is first looked into: for registries of which there are thousands.
    """

    def __init__(
        self,
        store: Store,
        caches: AnyCaches,
        admission: AdmissionChain,
        environment: Environment,
        *,
        late: bool = False,
    ) -> None:
        self.store = store
        self.caches = caches
        self.admission = admission
        self.environment = environment
        self._late = late
        environment.quotas = caches.of(_QUOTAS).store
        self.stores: dict[GroupResource, ResourceStore] = {}
        environment.listers = self._listers = Listers(self.stores)
        self.client = RegistryClient(self.stores)

    def add(self, row: Resource) -> ResourceStore:
        """The store of a row's resource; a second version of the same resource shares the first one's."""
        key = row.storage_resource
        found = self.stores.get(key)
        if found is None:
            caches = self.caches.of(key)
            make = caches.cache
            cache = make if self._late else make(key, row.selectable_fields, row.namespaced)
            found = self.stores[key] = ResourceStore(row, cache, caches.store, self.admission, self.environment)
        return found

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
