"""Finalizers that a controller adds to objects and removes again."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.tree import Object


def has(obj: Object, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or [])


def changed(obj: Object, finalizer: str, *, present: bool) -> Object:
    """A merge patch that adds or removes the finalizer; it conflicts if the object has changed since."""
    metadata = obj["metadata"]
    others = [name for name in elements(metadata, "finalizers") if name != finalizer]
    updated = [*others, finalizer] if present else others
    identity = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"metadata": {**identity, "finalizers": updated or None}}
