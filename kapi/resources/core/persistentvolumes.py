"""PersistentVolume (v1).

Upstream: ``pkg/apis/core/validation``: ValidatePersistentVolume; ``pkg/registry/core/persistentvolume``."""

from __future__ import annotations

from kapi.machinery import tree
from kapi.machinery.each import elements
from kapi.machinery.field import Path, forbidden, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.features import gate
from kapi.resources.shared.internal import difference, internal
from kapi.resources.shared.metadata import validate_immutable, validate_metadata
from kapi.resources.shared.persistent_volumes import (
    access_modes,
    default_volume_source,
    source_of,
    storage_class,
    validate_volume_spec,
)
from kapi.resources.shared.resource_names import round_resource_list
from kapi.resources.shared.rules import Errors, same
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy, keep
from kapi.resources.shared.volume_warnings import persistent_volume_warnings

_SPEC = Path("spec")
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_MOUNTABLE = (
    "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder", "cephfs",
    "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk",
)  # fmt: skip
#: labels that were renamed; an affinity may move from the old name to the new one
_RENAMED = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def _with_renamed_labels(affinity: Object | None, reference: Object | None) -> Object | None:
    """The affinity with its old label names replaced where ``reference`` uses the new ones."""
    if affinity is None:
        return None
    affinity = tree.copy(affinity)
    terms = (affinity.get("required") or {}).get("nodeSelectorTerms") or []
    others = ((reference or {}).get("required") or {}).get("nodeSelectorTerms") or []
    for term, other in zip(elements(terms), others, strict=False):
        pairs = zip(elements(term, "matchExpressions"), other.get("matchExpressions") or [], strict=False)
        for expression, wanted in pairs:
            key = wanted.get("key", "")
            if _RENAMED.get(expression.get("key", ""), "") == key:  # upstream finds "" for a name that was not renamed
                expression["key"] = key
    return affinity


class PersistentVolumeStrategy(PlainStrategy):
    namespaced = False
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        status["phase"] = status.get("phase") or "Pending"
        spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
        spec.setdefault("volumeMode", "Filesystem")
        default_volume_source(spec)
        round_resource_list(spec.get("capacity"))

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if old is None:
            obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": ctx.now}
        else:
            keep(obj, old, "status")

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_volume_spec(
            obj["spec"], obj["metadata"].get("name", ""), _SPEC, errors, old_spec=(old or {}).get("spec")
        )

    def validate(self, obj: Object, ctx: StrategyContext) -> Errors:
        return super().validate(obj, ctx) + self._mount_options(obj)

    def _mount_options(self, obj: Object) -> Errors:
        if _MOUNT_OPTIONS not in (obj["metadata"].get("annotations") or {}):
            return []
        if any(obj["spec"].get(name) is not None for name in _MOUNTABLE):
            return []
        path = Path("metadata").child("annotations", _MOUNT_OPTIONS)
        return [forbidden(path, "may not specify mount options for this volume type")]

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> Errors:
        errors: Errors = []
        for first in (True, False):
            # upstream makes these checks twice
            validate_metadata(obj, errors, namespaced=False)
            self.check(obj, old, errors, ctx)
            if first:
                errors += self._mount_options(obj)
        self._validate_change(obj.get("spec") or {}, old.get("spec") or {}, errors, ctx)
        return errors

    def _validate_change(self, new: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        source, before = source_of(new), source_of(old)
        old_csi, csi = before.get("csi"), source.get("csi")
        if old_csi is not None and csi is not None and old_csi.get("controllerExpandSecretRef") is None:
            # this reference may be added later
            source["csi"] = {name: value for name, value in csi.items() if name != "controllerExpandSecretRef"}
        if source.keys() != before.keys() or any(not same(source[name], before[name]) for name in source):
            changes = difference("PersistentVolumeSource", before, source)
            detail = f"spec.persistentvolumesource is immutable after creation\n{changes}"
            errors.append(forbidden(_SPEC.child("persistentvolumesource"), detail))
        validate_immutable(new.get("volumeMode"), old.get("volumeMode"), Path("volumeMode"), errors)
        affinity, was = new.get("nodeAffinity"), old.get("nodeAffinity")
        if (
            was is not None
            and not gate(ctx, "MutablePVNodeAffinity")
            and not tree.equal(affinity, was)
            and not tree.equal(affinity, _with_renamed_labels(was, affinity))
        ):
            shown = internal("VolumeNodeAffinity", affinity)
            detail = "field is immutable, except for updating from beta label to GA"
            errors.append(invalid(Path("nodeAffinity"), shown, detail))
        if old.get("volumeAttributesClassName") is not None and new.get("volumeAttributesClassName") is None:
            path = _SPEC.child("volumeAttributesClassName")
            errors.append(forbidden(path, "update from non-nil value to nil is forbidden"))

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return persistent_volume_warnings(obj)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return persistent_volume_warnings(obj)


class PersistentVolumeStatusStrategy(PlainStatusStrategy):
    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        given, was = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") == before.get("phase"):
            if given is None and was is not None:
                status["lastPhaseTransitionTime"] = was
        elif given is None or given == was:
            status["lastPhaseTransitionTime"] = ctx.now


def _status(obj: Object, now: float) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else (obj.get("status") or {}).get("phase", "")


def _claim(obj: Object, now: float) -> str:
    claim = (obj.get("spec") or {}).get("claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


RESOURCE = Resource(
    *type_meta("v1", "PersistentVolume"),
    short_names=("pv",),
    strategy=PersistentVolumeStrategy(),
    status=PersistentVolumeStatusStrategy,
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.column(
            "Capacity",
            lambda obj, now: ((obj.get("spec") or {}).get("capacity") or {}).get("storage", "0"),
            ".spec.capacity",
        ),
        printing.column(
            "Access Modes",
            lambda obj, now: access_modes((obj.get("spec") or {}).get("accessModes")),
            ".spec.accessModes",
        ),
        printing.column(
            "Reclaim Policy",
            printing.of_spec("persistentVolumeReclaimPolicy"),
            "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from "
            "its claim. Valid options are Retain (default for manually created PersistentVolumes), Delete "
            "(default for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must "
            "be supported by the volume plugin underlying this PersistentVolume. More info: "
            "https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
        ),
        printing.column(
            "Status",
            _status,
            "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: "
            "https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
        ),
        printing.column("Claim", _claim, ".spec.claimRef"),
        printing.column("StorageClass", lambda obj, now: storage_class(obj), "StorageClass of the pv"),
        printing.column(
            "VolumeAttributesClass",
            printing.of_spec("volumeAttributesClassName", printing.UNSET),
            "VolumeAttributesClass of the pv",
        ),
        printing.field_column("Reason", ".status.reason"),
        printing.AGE,
        printing.column(
            "VolumeMode",
            printing.of_spec("volumeMode", printing.UNSET),
            "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain "
            "in raw block state. Value of Filesystem is implied when not included in spec.",
            priority=1,
        ),
        of="api.core.v1.PersistentVolume",
    ),
)
