"""HorizontalPodAutoscaler (autoscaling/v1): a view of the v2 objects that are stored."""

from __future__ import annotations

from msgspec.structs import replace

from kapi.resources.autoscaling.conversion import from_v1, to_v1
from kapi.resources.autoscaling.horizontalpodautoscalers import STATUS, STRATEGY, TABLE
from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="autoscaling",
    version="v1",
    kind="HorizontalPodAutoscaler",
    plural="horizontalpodautoscalers",
    namespaced=True,
    short_names=("hpa",),
    categories=("all",),
    storage_version_hash="qwQve8ut294=",
    subresources=(STATUS,),
    strategy=STRATEGY,
    table=replace(TABLE, of_stored=True),
    storage_version="v2",
    to_storage=from_v1,
    from_storage=to_v1,
)
