"""Whether a volume's finalizer has to be added or may be removed."""

from __future__ import annotations

from kapi.controllers import finalizers
from kapi.machinery.tree import Object

FINALIZER = "kubernetes.io/pv-protection"


def due_patch(volume: Object) -> Object | None:
    """The patch that adds or removes the finalizer; None when there is nothing to do."""
    deleting = bool(volume["metadata"].get("deletionTimestamp"))
    if deleting != finalizers.has(volume, FINALIZER) or (deleting and _bound(volume)):
        return None
    return finalizers.changed(volume, FINALIZER, present=not deleting)


def _bound(volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") == "Bound"
