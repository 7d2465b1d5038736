"""What a write was charged to, as the store knows it (upstream has no such check: a count may drop a charge there)."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.admission.interface import Attributes
from kapi.registry.resource_store import ResourceStore
from kapi.store.interface import Charge


def charges_of(store: ResourceStore, attributes: Attributes) -> Sequence[Charge]:
    """The quotas of the object's namespace that admission has charged, by their keys in the store.

    None where quotas are kept in another one: that knows nothing of this write, as upstream's never does.
    """
    if store.store is not store.environment.quotas:
        return ()
    prefix = f"core/resourcequotas/{attributes.namespace}/"
    return [Charge(prefix + name, revision) for name, revision in attributes.charges.items()]
