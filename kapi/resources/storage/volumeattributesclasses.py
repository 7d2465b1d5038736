"""VolumeAttributesClass (storage.k8s.io/v1, KEP-3751).

Upstream: ``pkg/apis/storage/validation``, ``pkg/registry/storage/volumeattributesclass``."""

from __future__ import annotations

from kapi.machinery.field import Path, forbidden
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_metadata, validate_metadata_update
from kapi.resources.shared.rules import Errors, same
from kapi.resources.shared.strategies import PlainStrategy
from kapi.resources.storage.storageclasses import validate_parameters, validate_provisioner


class VolumeAttributesClassStrategy(PlainStrategy):
    namespaced = False

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_provisioner(obj.get("driverName") or "", Path("driverName"), errors)
        validate_parameters(obj.get("parameters") or {}, Path("parameters"), errors, may_be_empty=False)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> Errors:
        errors: Errors = []
        validate_metadata_update(obj, old, errors)
        for name in ("driverName", "parameters"):
            if not same(obj.get(name), old.get(name)):
                errors.append(forbidden(Path(name), f"updates to {name} are forbidden."))
        validate_metadata(obj, errors, namespaced=False)
        self.check(obj, old, errors, ctx)
        return errors


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    namespaced=False,
    short_names=("vac",),
    storage_version_hash="tIjydgKBC5w=",
    strategy=VolumeAttributesClassStrategy(),
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.column(
            "DriverName", lambda obj, now: obj.get("driverName", ""), "Name of the CSI driver This field is immutable."
        ),
        printing.AGE,
    ),
)
