"""Lease (coordination.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    singular="lease",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="gqkMMb/YqFM=",
)
