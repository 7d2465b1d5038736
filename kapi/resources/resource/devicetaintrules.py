"""DeviceTaintRule (resource.k8s.io/v1beta2): a taint on devices that drivers publish (KEP-5055).

Upstream: ``pkg/apis/resource/validation``, ``pkg/registry/resource/devicetaintrule``."""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.ages import since
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.definition import FieldText, Resource, StrategyContext, type_meta
from kapi.resources.resource import devices
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_conditions
from kapi.resources.shared.rules import Errors, at_most
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy

_SPEC, _CONDITIONS = Path("spec"), Path("status").child("conditions")
_MAX_CONDITIONS = 8


class DeviceTaintRuleStrategy(PlainStrategy):
    namespaced = False
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)
    generation_parts = ("spec",)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        taint = (obj.get("spec") or {}).get("taint")
        if taint is None:
            return
        before = ((old or {}).get("spec") or {}).get("taint") or taint
        renewed = taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded")
        if renewed or not taint.get("timeAdded"):
            taint["timeAdded"] = ctx.now

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
        selector, here = spec.get("deviceSelector") or {}, _SPEC.child("deviceSelector")
        for name, rule in (
            ("driver", devices.check_driver),
            ("pool", devices.check_pool),
            ("device", devices.check_label),
        ):
            if selector.get(name) is not None:
                rule(selector[name], here.child(name), errors)
        known = (before.get("taint") or {}).get("effect")
        devices.check_taint(spec.get("taint") or {}, _SPEC.child("taint"), errors, known)


class DeviceTaintRuleStatusStrategy(StatusOnlyStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        conditions = (obj.get("status") or {}).get("conditions") or []
        validate_conditions(conditions, _CONDITIONS, errors)
        at_most(len(conditions), _MAX_CONDITIONS, _CONDITIONS, errors)


def _added(rule: Object, now: float) -> str:
    time = ((rule.get("spec") or {}).get("taint") or {}).get("timeAdded")
    return since(time, now) if time else ""


RESOURCE = Resource(
    *type_meta("resource.k8s.io/v1beta2", "DeviceTaintRule"),
    returns_deleted=True,
    strategy=DeviceTaintRuleStrategy(),
    status=DeviceTaintRuleStatusStrategy,
    table=printing.table(
        printing.NAME,
        *(
            printing.field_column(name, f".spec.taint.{name.lower()}", of="api.resource.v1.DeviceTaint")
            for name in ("Key", "Value", "Effect")
        ),
        printing.column("TimeAdded", _added, FieldText("api.resource.v1.DeviceTaint", "timeAdded")),
        printing.AGE,
    ),
)
