"""Binding (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="", version="v1", kind="Binding", plural="bindings", namespaced=True, verbs=("create",), handler="bindings"
)
