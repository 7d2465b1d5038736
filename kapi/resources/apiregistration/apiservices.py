"""APIService (apiregistration.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="apiregistration.k8s.io",
    version="v1",
    kind="APIService",
    plural="apiservices",
    singular="apiservice",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    categories=("api-extensions",),
    storage_version_hash="InPBPD7+PqM=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="APIService"),
    ),
)
