"""FlowSchema (flowcontrol.apiserver.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    kind="FlowSchema",
    plural="flowschemas",
    singular="flowschema",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="GJVAJZSZBIw=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="FlowSchema"),
    ),
)
