"""ServiceCIDR (networking.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="ServiceCIDR",
    plural="servicecidrs",
    singular="servicecidr",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="gNLvruQhW2g=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="ServiceCIDR"),
    ),
)
