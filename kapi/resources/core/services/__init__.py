"""Service (v1)."""

from __future__ import annotations

from kapi.resources.core.services.strategy import TABLE, ServiceStatusStrategy, ServiceStrategy
from kapi.resources.definition import Resource, Subresource, selectable, type_meta

_STATUS = ServiceStatusStrategy()

RESOURCE = Resource(
    *type_meta("v1", "Service"),
    short_names=("svc",),
    categories=("all",),
    subresources=(
        Subresource(
            "proxy", ("create", "delete", "get", "patch", "update"), kind="ServiceProxyOptions", handler="proxy"
        ),
        Subresource("status", strategy=_STATUS),
    ),
    strategy=ServiceStrategy(),
    table=TABLE,
    returns_deleted=True,
    selectable_fields={"spec.clusterIP": selectable("spec.clusterIP"), "spec.type": selectable("spec.type")},
)
