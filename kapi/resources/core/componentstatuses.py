"""ComponentStatus (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="ComponentStatus",
    plural="componentstatuses",
    singular="componentstatus",
    namespaced=False,
    verbs=("get", "list"),
    short_names=("cs",),
    handler="componentstatuses",
)
