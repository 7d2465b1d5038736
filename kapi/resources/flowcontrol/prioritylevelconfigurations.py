"""PriorityLevelConfiguration (flowcontrol.apiserver.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    kind="PriorityLevelConfiguration",
    plural="prioritylevelconfigurations",
    singular="prioritylevelconfiguration",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="Kir5PVfvNeI=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="PriorityLevelConfiguration"),
    ),
)
