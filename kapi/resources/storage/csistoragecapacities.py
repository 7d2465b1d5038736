"""CSIStorageCapacity (storage.k8s.io/v1, KEP-1472).

Upstream: ``pkg/apis/storage/validation``, ``pkg/registry/storage/csistoragecapacity``."""

from __future__ import annotations

from kapi.machinery.field import Path, invalid
from kapi.machinery.quantities import compare
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared.metadata import IMMUTABLE
from kapi.resources.shared.names import subdomain_name
from kapi.resources.shared.rules import Errors, check, same
from kapi.resources.shared.selectors import validate_label_selector
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules
from kapi.resources.shared.volume_warnings import node_selector_warnings


class CSIStorageCapacityStrategy(PlainStrategy):
    allow_unconditional_update = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        found: Errors = []
        validate_label_selector((old or {}).get("nodeTopology"), Path(), found)
        path = Path("nodeTopology")
        validate_label_selector(obj.get("nodeTopology"), path, errors, allow_invalid_values=bool(found))
        check(subdomain_name)(obj.get("storageClassName") or "", Path("storageClassName"), errors, ctx)
        capacity = obj.get("capacity")
        if capacity is not None and compare(capacity, "0") < 0:
            errors.append(invalid(Path("capacity"), capacity, "must be greater than or equal to 0"))

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        topology, before = obj.get("nodeTopology"), old.get("nodeTopology")
        if (topology is None) != (before is None) or not same(topology, before):  # a pointer in Go
            errors.append(invalid(Path("nodeTopology"), topology, IMMUTABLE))
        name = obj.get("storageClassName") or ""
        if name != (old.get("storageClassName") or ""):
            errors.append(invalid(Path("storageClassName"), name, IMMUTABLE))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return node_selector_warnings(obj.get("nodeTopology"), Path("nodeTopology"))


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="CSIStorageCapacity",
    strategy=CSIStorageCapacityStrategy(),
)
