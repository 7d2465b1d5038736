"""PersistentVolumeClaim (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    singular="persistentvolumeclaim",
    namespaced=True,
    returns_deleted=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("pvc",),
    storage_version_hash="QWTyNDq0dC4=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="PersistentVolumeClaim"),
    ),
)
