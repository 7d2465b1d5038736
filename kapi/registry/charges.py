"""The quotas that a write was charged to, for the store (upstream: none; there a recalculation may lose a charge)."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.admission.interface import Attributes
from kapi.registry.resource_store import ResourceStore
from kapi.store.interface import Charge


def charges_of(store: ResourceStore, attributes: Attributes) -> Sequence[Charge]:
    """The quotas that admission has charged, by their keys in the store, with their revisions.

    Empty when quotas are in another store than the object: there is no transaction over both.
    """
    if store.store is not store.environment.quotas:
        return ()
    prefix = f"core/resourcequotas/{attributes.namespace}/"
    return [Charge(prefix + name, revision) for name, revision in attributes.charges.items()]
