"""StorageClass and VolumeAttributesClass (storage.k8s.io/v1, KEP-3751).

Upstream: ``pkg/apis/storage/validation``, ``pkg/registry/storage/{storageclass,volumeattributesclass}``.
"""

from __future__ import annotations

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, duplicate, forbidden, invalid, repeat, required, too_long
from kapi.machinery.freeing import drain
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_label_name
from kapi.resources.shared.names import is_label_key
from kapi.resources.shared.rules import Errors, distinct, fits, need, not_supported, present, report, same, supported
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules
from kapi.resources.shared.volume_warnings import NODE_LABELS

_MAX_PARAMETERS = 512
_MAX_PARAMETERS_SIZE = 256 * 1024  # bytes of keys and values
_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def validate_provisioner(name: str, path: Path, errors: Errors) -> None:
    if need(name, path, errors):
        report(is_label_key(name.lower()), name.lower(), path, errors)


def validate_parameters(parameters: dict[str, str], path: Path, errors: Errors, *, may_be_empty: bool) -> None:
    if len(parameters) > _MAX_PARAMETERS:
        errors.append(too_long(path, _MAX_PARAMETERS))
        return
    size = 0
    for key, value in parameters.items():
        if not key:
            errors.append(invalid(path, key, "field can not be empty."))
        size += len(key.encode()) + len(value.encode())
    fits(size, _MAX_PARAMETERS_SIZE, path, errors)
    if not may_be_empty and not parameters:
        errors.append(required(path, "must contain at least one key/value pair"))


def _topologies(terms: list[Object], path: Path, errors: Errors) -> None:
    # upstream's list of earlier terms begins with an empty one for each term
    seen: dict[frozenset[tuple[str, frozenset[str]]], int] = {frozenset(): len(terms)}
    for term, place in each_of(path, terms):
        here = place.child("matchLabelExpressions")
        found: dict[str, frozenset[str]] = {}
        for expression, place in each_of(here, term.get("matchLabelExpressions")):
            key, values, at = expression.get("key", ""), expression.get("values") or [], place
            need(values, at, errors, "values")
            given: set[str] = set()
            for value, place in each_of(at.child("values"), values):
                distinct(value, given, place, errors)
            validate_label_name(key, at.child("key"), errors)
            if key in found:
                errors.append(duplicate(at.child("key"), key))
            found[key] = frozenset(values)
        mark = frozenset(found.items())
        repeat(errors, duplicate(here, ""), seen.get(mark, 0))
        seen[mark] = seen.get(mark, 0) + 1
    drain(seen)


class StorageClassStrategy(PlainStrategy):
    namespaced = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE)
    immutable = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")

    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_provisioner(obj.get("provisioner") or "", Path("provisioner"), errors)
        validate_parameters(obj.get("parameters") or {}, Path("parameters"), errors, may_be_empty=True)
        policy, mode = obj.get("reclaimPolicy"), obj.get("volumeBindingMode")
        if policy and policy not in ("Delete", "Retain"):
            errors.append(not_supported(Path("reclaimPolicy"), policy, ("Delete", "Retain")))
        if present(mode, Path("volumeBindingMode"), errors):
            supported(mode, ("Immediate", "WaitForFirstConsumer"), Path("volumeBindingMode"), errors)
        _topologies(obj.get("allowedTopologies") or [], Path("allowedTopologies"), errors)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [
            f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {NODE_LABELS[expression['key']]}"
            for i, term in enumerate(elements(obj, "allowedTopologies"))
            for j, expression in enumerate(elements(term, "matchLabelExpressions"))
            if expression.get("key") in NODE_LABELS
        ]


def _name(obj: Object, now: float) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    default = any(annotations.get(name) == "true" for name in _DEFAULT_ANNOTATIONS)
    return printing.name(obj, now) + (" (default)" if default else "")


STORAGE_CLASS = Resource(
    *type_meta("storage.k8s.io/v1", "StorageClass"),
    short_names=("sc",),
    strategy=StorageClassStrategy(),
    returns_deleted=True,
    table=printing.table(
        printing.column("Name", _name, printing.NAME_TEXT, format="name"),
        printing.field_column("Provisioner", ".provisioner"),
        printing.column(
            "ReclaimPolicy",
            printing.value("reclaimPolicy", empty="Delete"),
            "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this "
            "storage class. Defaults to Delete.",
        ),
        printing.column(
            "VolumeBindingMode",
            printing.value("volumeBindingMode", empty="Immediate"),
            "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When "
            "unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the "
            "VolumeScheduling feature.",
        ),
        printing.column(
            "AllowVolumeExpansion", printing.value("allowVolumeExpansion", empty=False), ".allowVolumeExpansion"
        ),
        printing.AGE,
        of="api.storage.v1.StorageClass",
    ),
)


class VolumeAttributesClassStrategy(PlainStrategy):
    namespaced = False
    update_rules = (UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE, UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_provisioner(obj.get("driverName") or "", Path("driverName"), errors)
        validate_parameters(obj.get("parameters") or {}, Path("parameters"), errors, may_be_empty=False)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        for name in ("driverName", "parameters"):
            if not same(obj.get(name), old.get(name)):
                errors.append(forbidden(Path(name), f"updates to {name} are forbidden."))


VOLUME_ATTRIBUTES_CLASS = Resource(
    *type_meta("storage.k8s.io/v1", "VolumeAttributesClass"),
    short_names=("vac",),
    strategy=VolumeAttributesClassStrategy(),
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.field_column("DriverName", ".driverName"),
        printing.AGE,
        of="api.storage.v1beta1.VolumeAttributesClass",
    ),
)
