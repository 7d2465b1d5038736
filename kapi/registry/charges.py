"""What a write was charged to, as the store knows it (upstream has no such check: a count may drop a charge there)."""

from __future__ import annotations

from kapi.admission.interface import Attributes
from kapi.store.interface import Charge


def charges_of(attributes: Attributes) -> list[Charge]:
    """The quotas of the object's namespace that admission has charged, by their keys in the store."""
    prefix = f"core/resourcequotas/{attributes.namespace}/"
    return [Charge(prefix + name, revision) for name, revision in attributes.charges.items()]
