"""RoleBinding (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    kind="RoleBinding",
    plural="rolebindings",
    singular="rolebinding",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="eGsCzGH6b1g=",
)
