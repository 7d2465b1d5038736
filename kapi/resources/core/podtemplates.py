"""PodTemplate (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="PodTemplate",
    plural="podtemplates",
    singular="podtemplate",
    namespaced=True,
    returns_deleted=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="LIXB2x4IFpk=",
)
