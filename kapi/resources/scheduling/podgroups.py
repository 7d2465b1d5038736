"""PodGroup and Workload (scheduling.k8s.io/v1alpha2): pods that are scheduled together, and templates of their groups.

The kube-scheduler schedules them.  Values that an update does not change are not checked again.
Upstream: KEP-4671, KEP-5729, KEP-5710; the rules in ``staging/src/k8s.io/api/scheduling/v1alpha2/types.go``, apimachinery
``pkg/api/validate``; ``pkg/apis/scheduling/validation``, ``pkg/registry/scheduling``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import NIL, Path, duplicate, forbidden, invalid, required, too_many
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.features import gate
from kapi.resources.shared.metadata import validate_conditions, validate_label_name
from kapi.resources.shared.names import is_dns1123_label, is_dns1123_subdomain, is_path_segment_name
from kapi.resources.shared.rules import Errors, report, same, supported
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy

MAX_CLAIMS = 4
_MAX_TOPOLOGY_CONSTRAINTS = 1
_MAX_PRIORITY = 1_000_000_000
_MODES = ("Pod", "PodGroup")
_IMMUTABLE = "field is immutable"
_TOPOLOGY_GATE = "TopologyAwareWorkloadScheduling"
_CLAIMS_GATE = "DRAWorkloadResourceClaims"
_PREEMPTION_GATE = "WorkloadAwarePreemption"
_GATED = {
    "schedulingConstraints": _TOPOLOGY_GATE,
    "resourceClaims": _CLAIMS_GATE,
    "disruptionMode": _PREEMPTION_GATE,
    "priorityClassName": _PREEMPTION_GATE,
    "priority": _PREEMPTION_GATE,
}
Rule = Callable[[Tree, Path, Errors], None]
_SPEC, _STATUS = Path("spec"), Path("status")
_MAX_TEMPLATES = 8
_NULLS = ("schedulingConstraints",)  # fields of a template that the API shows even without a value
_DISRUPTION_MODE = "Pod"  # the default of a group, also while the gate is off


def drop_disabled(specs: Collection[Object], old: Collection[Object], ctx: object, shown: Collection[str] = ()) -> None:
    """Drops fields whose feature gate is off, unless they are stored already.

    ``shown``: fields that an object also has without a value, as null.
    """
    for field, name in _GATED.items():
        if gate(ctx, name) or any(_is_set(field, spec.get(field)) for spec in elements(old)):
            continue
        for spec in elements(specs):
            if field in shown:
                spec[field] = None
            else:
                spec.pop(field, None)


def _is_set(field: str, value: Tree) -> bool:
    return value not in (None, []) and (value != "" or field == "disruptionMode")  # a pointer in Go


def check_fixed(new: Tree, old: Tree, path: Path, errors: Errors) -> None:
    """Appends an error when the field has changed."""
    if not same(new, old):
        errors.append(invalid(path, NIL, _IMMUTABLE))


def check_group(spec: Object, old: Object | None, path: Path, errors: Errors, ctx: object) -> None:
    """The rules for a group's spec; with ``old``, the stored spec, no field may change."""

    def check(field: str, rule: Rule) -> None:
        value, here = spec.get(field), path.child(field)
        before = None if old is None else old.get(field)
        if old is not None and same(value, before):
            return
        name = _GATED.get(field)
        if name is not None and name != _CLAIMS_GATE and not gate(ctx, name):
            if _is_set(field, value):
                errors.append(forbidden(here, ""))
        elif old is not None:
            check_fixed(value, before, here, errors)
        elif _is_set(field, value) or field == "schedulingPolicy":
            rule(value, here, errors)

    check("schedulingPolicy", _check_policy)
    check("schedulingConstraints", _check_constraints)
    check("resourceClaims", _check_claims)
    check("disruptionMode", _check_mode)
    check("priorityClassName", check_long_name)
    check("priority", _check_priority)


def check_union(obj: Object, names: tuple[str, ...], path: Path, errors: Errors) -> None:
    """Checks that exactly one of these fields is set."""
    given = [name for name in names if obj.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in names)
    if not given:
        errors.append(invalid(path, "", f"must specify one of: {listed}"))
    elif len(given) > 1:
        errors.append(invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}"))


def check_short_name(name: str, path: Path, errors: Errors) -> None:
    report(is_dns1123_label(name), name, path, errors)


def check_long_name(name: str, path: Path, errors: Errors) -> None:
    report(is_dns1123_subdomain(name), name, path, errors)


def check_required(obj: Object, field: str, rule: Rule, path: Path, errors: Errors) -> None:
    """Checks that the field is set and valid by the rule."""
    value, here = obj.get(field), path.child(field)
    if value in (None, "", 0):
        errors.append(required(here))
    else:
        rule(value, here, errors)


def check_names(items: list[Object], path: Path, errors: Errors) -> None:
    """Checks that the items of a list have different names."""
    seen: set[str] = set()
    for item, here in each_of(path, items):
        name = item.get("name", "")
        if name in seen:
            errors.append(duplicate(here, item))
        seen.add(name)


def _check_policy(policy: Object | None, path: Path, errors: Errors) -> None:
    policy = policy or {}
    check_union(policy, ("basic", "gang"), path, errors)
    if policy.get("gang") is not None:
        check_required(policy["gang"], "minCount", _check_count, path.child("gang"), errors)


def _check_count(count: int, path: Path, errors: Errors) -> None:
    if count < 1:
        errors.append(invalid(path, count, "must be greater than or equal to 1"))


def _check_constraints(constraints: Object, path: Path, errors: Errors) -> None:
    topology, here = constraints.get("topology") or [], path.child("topology")
    if len(topology) > _MAX_TOPOLOGY_CONSTRAINTS:
        errors.append(too_many(here, len(topology), _MAX_TOPOLOGY_CONSTRAINTS))
        return
    for i, item in enumerate(topology):
        check_required(item, "key", validate_label_name, here.index(i), errors)


def _check_claims(claims: list[Object], path: Path, errors: Errors) -> None:
    if len(claims) > MAX_CLAIMS:
        errors.append(too_many(path, len(claims), MAX_CLAIMS))
        return
    check_names(claims, path, errors)
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for i, claim in enumerate(claims):
        here = path.index(i)
        check_union(claim, sources, here, errors)
        check_required(claim, "name", check_short_name, here, errors)
        for source in sources:
            if claim.get(source) is not None:
                check_long_name(claim[source], here.child(source), errors)


def _check_mode(mode: str, path: Path, errors: Errors) -> None:
    supported(mode, _MODES, path, errors)


def _check_priority(priority: int, path: Path, errors: Errors) -> None:
    if priority > _MAX_PRIORITY:
        errors.append(invalid(path, priority, f"must be less than or equal to {_MAX_PRIORITY}"))


class PodGroupStrategy(PlainStrategy):
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("disruptionMode", _DISRUPTION_MODE)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        drop_disabled([obj["spec"]], [] if old is None else [_stored(old)], ctx)

    def canonicalize(self, obj: Object) -> None:
        """Sets the default of a dropped field, as decoding the stored object does."""
        self.default(obj)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec, before = obj["spec"], None if old is None else _stored(old)
        reference, here = spec.get("podGroupTemplateRef"), _SPEC.child("podGroupTemplateRef")
        if before is not None:
            check_fixed(reference, before.get("podGroupTemplateRef"), here, errors)
        elif reference is not None:
            _check_reference(reference, here, errors)
        check_group(spec, before, _SPEC, errors, ctx)


def _stored(group: Object) -> Object:
    """The spec of a stored group, with the default that older objects lack."""
    return {"disruptionMode": _DISRUPTION_MODE, **(group.get("spec") or {})}


def _check_reference(reference: Object, path: Path, errors: Errors) -> None:
    check_union(reference, ("workload",), path, errors)
    workload, here = reference.get("workload"), path.child("workload")
    if workload is not None:
        check_required(workload, "workloadName", check_long_name, here, errors)
        check_required(workload, "podGroupTemplateName", check_short_name, here, errors)


class PodGroupStatusStrategy(StatusOnlyStrategy):
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
        if len(states) > MAX_CLAIMS:
            errors.append(too_many(here, len(states), MAX_CLAIMS))
            return
        check_names(states, here, errors)
        for i, state in enumerate(states):
            if state.get("resourceClaimName") is not None:
                path = here.index(i).child("resourceClaimName")
                check_long_name(state["resourceClaimName"], path, errors)


POD_GROUP = Resource(
    *type_meta("scheduling.k8s.io/v1alpha2", "PodGroup"),
    strategy=PodGroupStrategy(),
    status=PodGroupStatusStrategy,
    table=printing.table(printing.NAME, printing.AGE),
    gates=("GenericWorkload",),
)


def _templates(obj: Object | None) -> list[Object]:
    return ((obj or {}).get("spec") or {}).get("podGroupTemplates") or []


class WorkloadStrategy(PlainStrategy):
    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        drop_disabled(_templates(obj), _templates(old), ctx, _NULLS)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        if spec.get("controllerRef") is not None:
            _check_controller(spec["controllerRef"], _SPEC.child("controllerRef"), errors)
        templates, here = _templates(obj), _SPEC.child("podGroupTemplates")
        if not templates:
            errors.append(required(here))
        elif len(templates) > _MAX_TEMPLATES:
            errors.append(too_many(here, len(templates), _MAX_TEMPLATES))
        else:
            check_names(templates, here, errors)
            for i, template in enumerate(templates):
                check_required(template, "name", check_short_name, here.index(i), errors)
                check_group(template, None, here.index(i), errors, ctx)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        new, before = obj.get("spec") or {}, old.get("spec") or {}
        check_fixed(new.get("controllerRef"), before.get("controllerRef"), _SPEC.child("controllerRef"), errors)
        templates = [dict.fromkeys(_NULLS) | template for template in _templates(old)]  # older objects lack them
        check_fixed(new.get("podGroupTemplates"), templates, _SPEC.child("podGroupTemplates"), errors)


def _check_controller(reference: Object, path: Path, errors: Errors) -> None:
    if reference.get("apiGroup"):
        check_long_name(reference["apiGroup"], path.child("apiGroup"), errors)
    for name in ("kind", "name"):
        check_required(reference, name, _check_segment, path, errors)


def _check_segment(name: str, path: Path, errors: Errors) -> None:
    report(is_path_segment_name(name), name, path, errors)


WORKLOAD = Resource(
    *type_meta("scheduling.k8s.io/v1alpha2", "Workload"),
    strategy=WorkloadStrategy(),
    table=printing.table(printing.NAME, printing.AGE),
    gates=("GenericWorkload",),
)
