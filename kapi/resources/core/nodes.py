"""Node (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="Node",
    plural="nodes",
    singular="node",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("no",),
    storage_version_hash="XwShjMxG9Fs=",
    subresources=(
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), kind="NodeProxyOptions", handler="proxy"),
        Subresource("status", ("get", "patch", "update"), kind="Node"),
    ),
)
