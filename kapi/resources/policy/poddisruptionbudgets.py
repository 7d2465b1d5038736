"""PodDisruptionBudget (policy/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="policy",
    version="v1",
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    singular="poddisruptionbudget",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("pdb",),
    storage_version_hash="EVWiDmWqyJw=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="PodDisruptionBudget"),
    ),
)
