"""Service (v1)."""

from __future__ import annotations

from kapi.resources.core.services.strategy import TABLE, ServiceStatusStrategy, ServiceStrategy
from kapi.resources.definition import Resource, Subresource, selectable

_STATUS = ServiceStatusStrategy()

RESOURCE = Resource(
    group="",
    version="v1",
    kind="Service",
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
