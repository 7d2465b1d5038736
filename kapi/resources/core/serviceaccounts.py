"""ServiceAccount (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="ServiceAccount",
    plural="serviceaccounts",
    singular="serviceaccount",
    namespaced=True,
    returns_deleted=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("sa",),
    storage_version_hash="pbx9ZvyFpBE=",
    subresources=(
        Subresource("token", ("create",), group="authentication.k8s.io", version="v1", kind="TokenRequest", handler="token"),
    ),
)
