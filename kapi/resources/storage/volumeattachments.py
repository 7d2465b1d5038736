"""VolumeAttachment (storage.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="VolumeAttachment",
    plural="volumeattachments",
    singular="volumeattachment",
    namespaced=False,
    returns_deleted=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="tJx/ezt6UDU=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="VolumeAttachment"),
    ),
)
