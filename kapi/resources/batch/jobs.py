"""Job (batch/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="batch",
    version="v1",
    kind="Job",
    plural="jobs",
    singular="job",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    categories=("all",),
    storage_version_hash="mudhfqk/qZY=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="Job"),
    ),
)
