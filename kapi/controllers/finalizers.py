"""Finalizers that a controller puts on objects and takes off again."""

from __future__ import annotations

from kapi.machinery.checkpoint import steps
from kapi.machinery.tree import Object


def has(obj: Object, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or [])


def changed(obj: Object, finalizer: str, *, present: bool) -> Object:
    """A merge patch of this very object, as it was seen, with the finalizer or without it."""
    metadata = obj["metadata"]
    others = [name for name in steps(metadata.get("finalizers") or []) if name != finalizer]
    wanted = [*others, finalizer] if present else others
    identity = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"metadata": {**identity, "finalizers": wanted or None}}
