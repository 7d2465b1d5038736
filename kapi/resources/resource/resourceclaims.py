"""ResourceClaim (resource.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="resource.k8s.io",
    version="v1",
    kind="ResourceClaim",
    plural="resourceclaims",
    singular="resourceclaim",
    namespaced=True,
    returns_deleted=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="wgAZaHcZxUg=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="ResourceClaim"),
    ),
)
