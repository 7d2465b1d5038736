"""ReplicaSet (apps/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="ReplicaSet",
    plural="replicasets",
    singular="replicaset",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("rs",),
    categories=("all",),
    storage_version_hash="P1RzHs8/mWQ=",
    subresources=(
        Subresource("scale", ("get", "patch", "update"), group="autoscaling", version="v1", kind="Scale", handler="scale"),
        Subresource("status", ("get", "patch", "update"), kind="ReplicaSet"),
    ),
)
