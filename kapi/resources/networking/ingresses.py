"""Ingress (networking.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="Ingress",
    plural="ingresses",
    singular="ingress",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("ing",),
    storage_version_hash="39NQlfNR+bo=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="Ingress"),
    ),
)
