"""CSIDriver, CSINode and CSIStorageCapacity (storage.k8s.io/v1, KEP-1472).

Upstream: ``pkg/apis/storage/validation``, ``pkg/registry/storage``: csidriver, csinode, csistoragecapacity."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.field import Path, duplicate, invalid
from kapi.machinery.quantities import compare
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.features import gate
from kapi.resources.shared.gated import drop_disabled, gated
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import IMMUTABLE, validate_immutable
from kapi.resources.shared.names import is_label_key, subdomain_name
from kapi.resources.shared.rules import (
    TOKEN_SECONDS,
    Errors,
    check,
    distinct,
    need,
    not_supported,
    report,
    same,
    supported,
)
from kapi.resources.shared.selectors import validate_label_selector
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules
from kapi.resources.shared.volume_sources import validate_csi_driver_name
from kapi.resources.shared.volume_warnings import node_selector_warnings

_SPEC = Path("spec")
_GATED = (gated("VolumeLimitScaling", "spec.preventPodSchedulingIfMissing"),)
_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging "
    "of tokens in volume attributes"
)


def _token_requests(requests: list[Object], path: Path, errors: Errors) -> None:
    seen: set[str] = set()
    for i, request in enumerate(requests):
        audience, seconds, here = request.get("audience", ""), request.get("expirationSeconds"), path.index(i)
        if audience in seen:
            errors.append(duplicate(here.child("audience"), audience))
            continue
        seen.add(audience)
        if seconds is not None:
            TOKEN_SECONDS(seconds, here.child("expirationSeconds"), errors, None)


class CSIDriverStrategy(PlainStrategy):
    namespaced = False
    allow_unconditional_update = False
    generation_parts = ("spec",)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for name, value in _DEFAULTS.items():
            spec.setdefault(name, value)
        spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        # upstream sets the generation only on changes, not on create
        self.prepare(obj, None, ctx)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        drop_disabled(_GATED, obj, old, ctx)
        if gate(ctx, "VolumeLimitScaling") and obj["spec"].get("preventPodSchedulingIfMissing") is None:
            obj["spec"]["preventPodSchedulingIfMissing"] = False  # here, since ``default`` does not get feature gates

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        policy = spec.get("fsGroupPolicy")
        if policy is not None and policy not in _GROUP_POLICIES:
            errors.append(not_supported(_SPEC.child("fsGroupPolicy"), policy, _GROUP_POLICIES))
        requests = spec.get("tokenRequests") or []
        _token_requests(requests, _SPEC.child("tokenRequests"), errors)
        for mode in elements(spec, "volumeLifecycleModes"):
            supported(mode, ("Persistent", "Ephemeral"), _SPEC, errors, "volumeLifecycleModes")
        period, path = spec.get("nodeAllocatableUpdatePeriodSeconds"), _SPEC.child("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < 10:
            errors.append(invalid(path, period, "must be greater than or equal to 10 seconds"))
        in_secrets = spec.get("serviceAccountTokenInSecrets")
        if in_secrets is not None and not requests:
            detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.append(invalid(_SPEC.child("serviceAccountTokenInSecrets"), in_secrets, detail))

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        new, before = obj.get("spec") or {}, old.get("spec") or {}
        validate_immutable(
            new.get("attachRequired"), before.get("attachRequired"), _SPEC.child("attachedRequired"), errors
        )
        name = "volumeLifecycleModes"
        validate_immutable(new.get(name), before.get(name), _SPEC.child(name), errors)

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        spec = obj.get("spec") or {}
        exposed = spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None
        return [_TOKENS_IN_ATTRIBUTES] if exposed else []

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        name = "tokenRequests"
        if same((obj.get("spec") or {}).get(name), (old.get("spec") or {}).get(name)):
            return []
        return self.warnings_on_create(obj, ctx)


def _audiences(obj: Object, now: float) -> str:
    requests = (obj.get("spec") or {}).get("tokenRequests")
    if not requests:
        return printing.UNSET
    return ",".join(request.get("audience", "") for request in requests)


CSI_DRIVER = Resource(
    *type_meta("storage.k8s.io/v1", "CSIDriver"),
    strategy=CSIDriverStrategy(),
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.field_column("AttachRequired", ".spec.attachRequired", empty=True, type="boolean"),
        printing.field_column("PodInfoOnMount", ".spec.podInfoOnMount", empty=False, type="boolean"),
        printing.field_column("StorageCapacity", ".spec.storageCapacity", empty=False, type="boolean"),
        printing.column("TokenRequests", _audiences, ".spec.tokenRequests"),
        printing.field_column("RequiresRepublish", ".spec.requiresRepublish", empty=False, type="boolean"),
        printing.column(
            "Modes",
            lambda obj, now: printing.joined((obj.get("spec") or {}).get("volumeLifecycleModes")),
            ".spec.volumeLifecycleModes",
        ),
        printing.AGE,
        of="api.storage.v1.CSIDriver",
    ),
)

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


CSI_NODE = Resource(
    *type_meta("storage.k8s.io/v1", "CSINode"),
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


CSI_STORAGE_CAPACITY = Resource(
    *type_meta("storage.k8s.io/v1", "CSIStorageCapacity"), strategy=CSIStorageCapacityStrategy()
)
