"""IPAddress (networking.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="IPAddress",
    plural="ipaddresses",
    singular="ipaddress",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("ip",),
    storage_version_hash="3f/plJFChNE=",
)
