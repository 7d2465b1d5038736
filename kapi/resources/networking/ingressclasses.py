"""IngressClass (networking.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="IngressClass",
    plural="ingressclasses",
    singular="ingressclass",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    storage_version_hash="l/iqIbDgFyQ=",
)
