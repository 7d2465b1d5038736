"""PodGroup (scheduling.k8s.io/v1alpha2): pods that are scheduled together (KEP-4671).

Upstream: ``pkg/apis/scheduling/validation``, ``pkg/registry/scheduling/podgroup``.  The kube-scheduler
schedules them."""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, invalid, too_many
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, Subresource
from kapi.resources.scheduling import group_spec
from kapi.resources.shared import printing
from kapi.resources.shared.features import gate
from kapi.resources.shared.metadata import validate_conditions
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC, _STATUS = Path("spec"), Path("status")


class PodGroupStrategy(PlainStrategy):
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        spec = obj.setdefault("spec", {})
        group_spec.drop_disabled([spec], [old["spec"]] if old and old.get("spec") else [], ctx)
        if gate(ctx, "WorkloadAwarePreemption"):
            spec.setdefault("disruptionMode", "Pod")

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec, before = obj.get("spec") or {}, None if old is None else old.get("spec") or {}
        reference, here = spec.get("podGroupTemplateRef"), _SPEC.child("podGroupTemplateRef")
        if before is not None:
            group_spec.check_fixed(reference, before.get("podGroupTemplateRef"), here, errors)
        elif reference is not None:
            _check_reference(reference, here, errors)
        group_spec.check_group(spec, before, _SPEC, errors, ctx)


def _check_reference(reference: Object, path: Path, errors: Errors) -> None:
    group_spec.check_union(reference, ("workload",), path, errors)
    workload, here = reference.get("workload"), path.child("workload")
    if workload is not None:
        group_spec.check_required(workload, "workloadName", group_spec.check_long_name, here, errors)
        group_spec.check_required(workload, "podGroupTemplateName", group_spec.check_short_name, here, errors)


class PodGroupStatusStrategy(PlainStatusStrategy):
    reset_fields = ("metadata", "spec")
    keeps_metadata = True

    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        claims = (old.get("spec") or {}).get("resourceClaims")
        if not claims and not gate(ctx, "DRAWorkloadResourceClaims"):
            (obj.get("status") or {}).pop("resourceClaimStatuses", None)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status, before = obj.get("status") or {}, old.get("status") or {}
        validate_conditions(status.get("conditions") or [], _STATUS.child("conditions"), errors)
        claims = {claim.get("name", "") for claim in elements(obj, "spec", "resourceClaims")}
        states, here = status.get("resourceClaimStatuses") or [], _STATUS.child("resourceClaimStatuses")
        for state, place in each_of(here, states):
            if state.get("name", "") not in claims:
                text = "must match the name of an entry in `spec.resourceClaims`"
                errors.append(invalid(place.child("name"), state.get("name", ""), text))
        if states == (before.get("resourceClaimStatuses") or []):
            return
        if len(states) > group_spec.MAX_CLAIMS:
            errors.append(too_many(here, len(states), group_spec.MAX_CLAIMS))
            return
        group_spec.check_names(states, here, errors)
        for i, state in enumerate(states):
            if state.get("resourceClaimName") is not None:
                path = here.index(i).child("resourceClaimName")
                group_spec.check_long_name(state["resourceClaimName"], path, errors)


_STRATEGY = PodGroupStrategy()

RESOURCE = Resource(
    group="scheduling.k8s.io",
    version="v1alpha2",
    kind="PodGroup",
    plural="podgroups",
    namespaced=True,
    subresources=(Subresource("status", strategy=PodGroupStatusStrategy(_STRATEGY)),),
    strategy=_STRATEGY,
    table=printing.table(
        printing.NAME,
        printing.AGE,
    ),
    gates=("GenericWorkload",),
)
