"""PersistentVolumeClaim (v1).

Upstream: ``pkg/apis/core/validation``: ValidatePersistentVolumeClaim; ``pkg/registry/core/persistentvolumeclaim``,
``pkg/api/persistentvolumeclaim``."""

from __future__ import annotations

from kapi.machinery import tree
from kapi.machinery.each import entries
from kapi.machinery.field import Path, forbidden, invalid, required
from kapi.machinery.quantities import ceiling, compare
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.claims import default_claim_spec, normalize_data_sources, validate_claim_spec
from kapi.resources.shared.features import gate
from kapi.resources.shared.internal import difference
from kapi.resources.shared.metadata import IMMUTABLE, validate_immutable
from kapi.resources.shared.names import is_label_key
from kapi.resources.shared.persistent_volumes import BETA_CLASS, access_modes, storage_class
from kapi.resources.shared.podwarnings import claim_spec_warnings
from kapi.resources.shared.resource_names import is_native, round_resource_list
from kapi.resources.shared.rules import Errors, not_supported
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy, UpdateRules, keep

_SPEC, _STATUS = Path("spec"), Path("status")
_RESIZE = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizePending", "NodeResizeInProgress",
    "NodeResizeInfeasible",
)  # fmt: skip


def _storage(claim: Object, *path: str) -> str:
    return tree.dig(claim, *path, "storage") or "0"


class PersistentVolumeClaimStrategy(PlainStrategy):
    reset_fields = ("status",)
    update_rules = (UpdateRules.CHANGED_METADATA, UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def default(self, obj: Object) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        status["phase"] = status.get("phase") or "Pending"
        default_claim_spec(spec)
        for part in ("capacity", "allocatedResources"):
            round_resource_list(status.get(part))

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if old is None:
            obj["status"] = {"phase": "Pending"}
        else:
            keep(obj, old, "status")
        normalize_data_sources(obj["spec"], (old or {}).get("spec"), gate(ctx, "CrossNamespaceVolumeDataSource"))

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_claim_spec(obj.get("spec") or {}, _SPEC, errors, old_spec=(old or {}).get("spec"))

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        self.check(obj, old, errors, ctx)
        new, before = tree.copy(obj.get("spec") or {}), tree.copy(old.get("spec") or {})
        normalize_data_sources(before, before)  # an existing reference stays
        self._class_change(obj, old, new, before, errors)
        if not before.get("volumeName"):
            # the binder sets it, once
            keep(before, new, "volumeName")
        if (obj.get("status") or {}).get("phase") == "Bound":
            requests = (new.get("resources") or {}).get("requests")
            if requests is not None:
                requests["storage"] = _storage(before, "resources", "requests")
            keep(new, before, "volumeAttributesClassName")
        if not tree.equal(new, before):
            changes = difference("PersistentVolumeClaimSpec", before, new)
            detail = (
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
                f"claims\n{changes}"
            )
            errors.append(forbidden(_SPEC, detail))
        size = _storage(obj, "spec", "resources", "requests")
        if compare(size, _storage(old, "spec", "resources", "requests")) < 0:
            path = _SPEC.child("resources", "requests", "storage")
            if compare(size, _storage(old, "status", "capacity")) <= 0:
                errors.append(forbidden(path, "field can not be less than status.capacity"))
        volume_mode = (old.get("spec") or {}).get("volumeMode")
        validate_immutable((obj.get("spec") or {}).get("volumeMode"), volume_mode, Path("volumeMode"), errors)
        self._attributes_class(obj, old, errors)

    def _class_change(self, obj: Object, old: Object, new: Object, before: Object, errors: Errors) -> None:
        """Whether the class may change: it may be set if there was none, and move from the old annotation to the field."""
        annotation = (old["metadata"].get("annotations") or {}).get(BETA_CLASS)
        new_annotation = (obj["metadata"].get("annotations") or {}).get(BETA_CLASS)
        name, was = new.get("storageClassName"), before.get("storageClassName")
        if was is None and annotation is not None and name == annotation and new_annotation in (None, annotation):
            new.pop("storageClassName")
            return
        if (new_annotation or "") != (annotation or ""):
            path = Path("metadata").child("annotations", BETA_CLASS)
            errors.append(invalid(path, new_annotation or "", IMMUTABLE))
        if was is None and name is not None and annotation in (None, name):
            new.pop("storageClassName")

    def _attributes_class(self, obj: Object, old: Object, errors: Errors) -> None:
        name = (obj.get("spec") or {}).get("volumeAttributesClassName")
        if name == (old.get("spec") or {}).get("volumeAttributesClassName"):
            return
        if (old.get("status") or {}).get("currentVolumeAttributesClassName") is None or name:
            return
        what = "nil" if name is None else "empty string"
        detail = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        errors.append(forbidden(_SPEC.child("volumeAttributesClassName"), detail))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        warnings: list[str] = []
        if BETA_CLASS in (obj["metadata"].get("annotations") or {}):
            text = 'deprecated since v1.8; use "storageClassName" attribute instead'
            warnings.append(f"metadata.annotations[{BETA_CLASS}]: {text}")
        return warnings + claim_spec_warnings(obj.get("spec") or {}, _SPEC)


def _resource_key(name: str, path: Path) -> Errors:
    problems = is_label_key(name)
    if problems:
        return [invalid(path, name, problem) for problem in problems]
    if is_native(name) and name != "storage":
        return [not_supported(path, name, ("storage",))]
    return []


def _not_below_zero(value: str, path: Path) -> Errors:
    return [invalid(path, ceiling(value), "must be a valid resource quantity")] if ceiling(value) < 0 else []


class PersistentVolumeClaimStatusStrategy(PlainStatusStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status = obj.get("status") or {}
        if not (obj.get("spec") or {}).get("accessModes"):
            errors.append(required(Path("Spec").child("accessModes")))
        for name, value in entries(status, "capacity"):
            errors += _not_below_zero(value, _STATUS.child("capacity").key(name))
        path = _STATUS.child("allocatedResourceStatuses")
        for name, value in entries(status, "allocatedResourceStatuses"):
            errors += _resource_key(name, path)
            if value not in _RESIZE:
                # upstream shows the resource, not the status
                errors.append(not_supported(path, name, sorted(_RESIZE)))
        path = _STATUS.child("allocatedResources")
        for name, value in entries(status, "allocatedResources"):
            errors += _resource_key(name, path) or _not_below_zero(value, path.key(name))


def _phase(obj: Object, now: float) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else (obj.get("status") or {}).get("phase", "")


def _bound(obj: Object) -> bool:
    return bool((obj.get("spec") or {}).get("volumeName"))


def _modes(obj: Object, now: float) -> str:
    return access_modes((obj.get("status") or {}).get("accessModes")) if _bound(obj) else ""


RESOURCE = Resource(
    *type_meta("v1", "PersistentVolumeClaim"),
    short_names=("pvc",),
    strategy=PersistentVolumeClaimStrategy(),
    status=PersistentVolumeClaimStatusStrategy,
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.column("Status", _phase, "phase represents the current phase of PersistentVolumeClaim."),
        printing.field_column("Volume", ".spec.volumeName"),
        printing.column(
            "Capacity", lambda obj, now: _storage(obj, "status", "capacity") if _bound(obj) else "", ".status.capacity"
        ),
        printing.column("Access Modes", _modes, ".status.accessModes"),
        printing.column("StorageClass", lambda obj, now: storage_class(obj), "StorageClass of the pvc"),
        printing.column(
            "VolumeAttributesClass",
            printing.value("spec", "volumeAttributesClassName", empty=printing.UNSET),
            "VolumeAttributesClass of the pvc",
        ),
        printing.AGE,
        printing.column(
            "VolumeMode",
            printing.value("spec", "volumeMode", empty=printing.UNSET),
            "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied "
            "when not included in claim spec.",
            priority=1,
        ),
        of="api.core.v1.PersistentVolumeClaim",
    ),
)
