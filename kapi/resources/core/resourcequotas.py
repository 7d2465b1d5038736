"""ResourceQuota (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="ResourceQuota",
    plural="resourcequotas",
    singular="resourcequota",
    namespaced=True,
    returns_deleted=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("quota",),
    storage_version_hash="8uhSgffRX6w=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="ResourceQuota"),
    ),
)
