"""Whether a volume's finalizer has to come or may go."""

from __future__ import annotations

from kapi.controllers import finalizers
from kapi.machinery.tree import Object

FINALIZER = "kubernetes.io/pv-protection"


def step(volume: Object) -> Object | None:
    """The patch that is due, if any."""
    going = bool(volume["metadata"].get("deletionTimestamp"))
    if going != finalizers.has(volume, FINALIZER) or (going and _bound(volume)):
        return None
    return finalizers.changed(volume, FINALIZER, present=not going)


def _bound(volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") == "Bound"
