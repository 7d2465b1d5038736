"""Namespace (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    singular="namespace",
    namespaced=False,
    returns_deleted=True,
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    short_names=("ns",),
    storage_version_hash="Q3oi5N2YM8M=",
    subresources=(
        Subresource("finalize", ("update",), kind="Namespace"),
        Subresource("status", ("get", "patch", "update"), kind="Namespace"),
    ),
)
