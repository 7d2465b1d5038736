"""DaemonSet (apps/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="DaemonSet",
    plural="daemonsets",
    singular="daemonset",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("ds",),
    categories=("all",),
    storage_version_hash="dd7pWHUlMKQ=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="DaemonSet"),
    ),
)
