"""HorizontalPodAutoscaler (autoscaling/v2)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="autoscaling",
    version="v2",
    kind="HorizontalPodAutoscaler",
    plural="horizontalpodautoscalers",
    singular="horizontalpodautoscaler",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("hpa",),
    categories=("all",),
    storage_version_hash="qwQve8ut294=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="HorizontalPodAutoscaler"),
    ),
)
