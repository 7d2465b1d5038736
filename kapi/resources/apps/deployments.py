"""Deployment (apps/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="Deployment",
    plural="deployments",
    singular="deployment",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("deploy",),
    categories=("all",),
    storage_version_hash="8aSe+NMegvE=",
    subresources=(
        Subresource("scale", ("get", "patch", "update"), group="autoscaling", version="v1", kind="Scale", handler="scale"),
        Subresource("status", ("get", "patch", "update"), kind="Deployment"),
    ),
)
