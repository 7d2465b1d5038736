"""CustomResourceDefinition (apiextensions.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    singular="customresourcedefinition",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    storage_version_hash="jfWCUB31mvA=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="CustomResourceDefinition"),
    ),
)
