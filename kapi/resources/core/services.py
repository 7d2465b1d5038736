"""Service (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="Service",
    plural="services",
    singular="service",
    namespaced=True,
    returns_deleted=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("svc",),
    categories=("all",),
    storage_version_hash="0/CO1lhkEBI=",
    subresources=(
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), kind="ServiceProxyOptions", handler="proxy"),
        Subresource("status", ("get", "patch", "update"), kind="Service"),
    ),
)
