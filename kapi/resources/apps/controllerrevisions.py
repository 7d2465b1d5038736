"""ControllerRevision (apps/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="ControllerRevision",
    plural="controllerrevisions",
    singular="controllerrevision",
    namespaced=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="85nkx63pcBU=",
)
