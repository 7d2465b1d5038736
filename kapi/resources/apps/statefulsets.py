"""StatefulSet (apps/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="StatefulSet",
    plural="statefulsets",
    singular="statefulset",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("sts",),
    categories=("all",),
    storage_version_hash="H+vl74LkKdo=",
    subresources=(
        Subresource("scale", ("get", "patch", "update"), group="autoscaling", version="v1", kind="Scale", handler="scale"),
        Subresource("status", ("get", "patch", "update"), kind="StatefulSet"),
    ),
)
