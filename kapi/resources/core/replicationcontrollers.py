"""ReplicationController (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="ReplicationController",
    plural="replicationcontrollers",
    singular="replicationcontroller",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("rc",),
    categories=("all",),
    storage_version_hash="Jond2If31h0=",
    subresources=(
        Subresource("scale", ("get", "patch", "update"), group="autoscaling", version="v1", kind="Scale", handler="scale"),
        Subresource("status", ("get", "patch", "update"), kind="ReplicationController"),
    ),
)
