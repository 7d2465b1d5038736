"""CronJob (batch/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="batch",
    version="v1",
    kind="CronJob",
    plural="cronjobs",
    singular="cronjob",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("cj",),
    categories=("all",),
    storage_version_hash="sd5LIXh4Fjs=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="CronJob"),
    ),
)
