"""PersistentVolume (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="PersistentVolume",
    plural="persistentvolumes",
    singular="persistentvolume",
    namespaced=False,
    returns_deleted=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("pv",),
    storage_version_hash="HN/zwEC+JgM=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="PersistentVolume"),
    ),
)
