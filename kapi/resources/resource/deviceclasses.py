"""DeviceClass (resource.k8s.io/v1).

Upstream: ``pkg/apis/resource/validation`` ValidateDeviceClass, ``pkg/registry/resource/deviceclass``."""

from __future__ import annotations

from kapi.machinery.field import Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.resource import devices
from kapi.resources.shared import printing
from kapi.resources.shared.gated import drop_disabled, gated
from kapi.resources.shared.names import long_object_name
from kapi.resources.shared.resource_names import is_extended
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_SPEC = Path("spec")
_GATED = (gated("DRAExtendedResource", "spec.extendedResourceName"),)


class DeviceClassStrategy(PlainStrategy):
    namespaced = False
    name_rule = staticmethod(long_object_name)
    generation_parts = ("spec",)
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.CHANGED_METADATA, UpdateRules.TYPE)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        drop_disabled(_GATED, obj, old, ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        selectors, here = spec.get("selectors") or [], _SPEC.child("selectors")
        stored = old is not None and selectors == ((old.get("spec") or {}).get("selectors") or [])
        devices.check_selectors(selectors, here, errors, ctx, stored=stored)

        def config(value: Object, here: Path) -> None:
            devices.check_configuration(value, here, errors)

        devices.check_list(spec.get("config") or [], devices.CONFIGS, config, _SPEC.child("config"), errors)
        name = spec.get("extendedResourceName")
        if name is not None and not is_extended(name):
            errors.append(invalid(_SPEC.child("extendedResourceName"), name, "must be a valid extended resource name"))


RESOURCE = Resource(
    *type_meta("resource.k8s.io/v1", "DeviceClass"),
    returns_deleted=True,
    strategy=DeviceClassStrategy(),
    table=printing.table(printing.NAME, printing.AGE),
)
