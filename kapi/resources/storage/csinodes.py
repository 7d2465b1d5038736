"""CSINode (storage.k8s.io/v1).

Upstream: ``pkg/apis/storage/validation``, ``pkg/registry/storage/csinode``."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.field import Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared import printing
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import IMMUTABLE
from kapi.resources.shared.names import is_label_key
from kapi.resources.shared.rules import Errors, distinct, need, report, same
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules
from kapi.resources.shared.volume_sources import validate_csi_driver_name

_DRIVERS = Path("spec").child("drivers")
_MAX_NODE_ID = 256  # bytes


def _drivers(obj: Object) -> list[Object]:
    return (obj.get("spec") or {}).get("drivers") or []


def _driver(driver: Object, seen: set[str], path: Path, errors: Errors) -> None:
    name, node = driver.get("name") or "", driver.get("nodeID") or ""
    validate_csi_driver_name(name, path.child("name"), errors)
    need(node, path, errors, "nodeID")
    if len(node.encode()) > _MAX_NODE_ID:
        errors.append(invalid(path.child("nodeID"), node, f"must be {_MAX_NODE_ID} characters or less"))
    count = (driver.get("allocatable") or {}).get("count")
    if count is not None and count < 0:
        errors.append(invalid(path.child("allocatable", "count"), count, "must be greater than or equal to 0"))
    distinct(name, seen, path, errors, "name")
    keys: set[str] = set()
    for key in elements(driver, "topologyKeys"):
        need(key, path, errors)
        distinct(key, keys, path, errors)
        report(is_label_key(key), key, path, errors)


class CSINodeStrategy(PlainStrategy):
    namespaced = False
    allow_unconditional_update = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        seen: set[str] = set()
        for i, driver in enumerate(_drivers(obj)):
            _driver(driver, seen, _DRIVERS.index(i), errors)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        drivers: dict[str, list[Object]] = {}
        for driver in elements(_drivers(obj)):
            drivers.setdefault(driver.get("name", ""), []).append(driver)
        for before in elements(_drivers(old)):
            for driver in drivers.pop(before.get("name", ""), ()):  # stored names differ
                if not all(same(driver.get(part), before.get(part)) for part in ("nodeID", "topologyKeys")):
                    shown = internal("CSINodeDriver", {**driver, "allocatable": None})
                    errors.append(invalid(_DRIVERS, shown, IMMUTABLE))


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="CSINode",
    strategy=CSINodeStrategy(),
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.column(
            "Drivers",
            lambda obj, now: len(_drivers(obj)),
            "Drivers indicates the number of CSI drivers registered on the node",
            "integer",
        ),
        printing.AGE,
    ),
)
