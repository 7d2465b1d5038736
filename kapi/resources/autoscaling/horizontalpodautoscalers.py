"""HorizontalPodAutoscaler: defaults, validation, strategy, table.  autoscaling/v2 is stored, autoscaling/v1 is a view of it.

Upstream: ``pkg/apis/autoscaling``, ``pkg/registry/autoscaling/horizontalpodautoscaler``.
"""

from __future__ import annotations

from msgspec.structs import replace

from kapi.machinery import field, quantities, tree
from kapi.machinery.each import elements, entries
from kapi.machinery.field import Path
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.autoscaling.conversion import DEFAULT_UTILIZATION, cpu_metric, drop_own_annotations, from_v1, to_v1
from kapi.resources.definition import FieldText, Resource, StrategyContext, Subresource, type_meta
from kapi.resources.shared.compute import validate_container_resource_name
from kapi.resources.shared.features import gate
from kapi.resources.shared.names import is_dns1123_label, is_path_segment_name
from kapi.resources.shared.printing import AGE, NAME, NONE, UNKNOWN, UNSET, column, field_column, table
from kapi.resources.shared.replicas import validate_counts
from kapi.resources.shared.rules import (
    Errors,
    Rule,
    at,
    check,
    each,
    enum,
    holds,
    need,
    not_supported,
    report,
    required,
    struct,
)
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC, _STATUS = Path("spec"), Path("status")

_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Object = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
_SOURCES = ("Object", "Pods", "Resource", "External", "ContainerResource")
_FIELDS = {"Object": "object", "Pods": "pods", "Resource": "resource", "External": "external"} | {
    "ContainerResource": "containerResource"
}


# -- validation --------------------------------------------------------------------------------------------------------
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
_IS_TYPE = holds(lambda kind: kind in _TARGET_TYPES, "must be either Utilization, Value, or AverageValue")
_METRIC = at("metric", required("name", "must specify a metric name", then=check(is_path_segment_name)), zero={})


class _Options:
    """The relaxed rules for values of the stored object."""

    __slots__ = ("lowest", "any_target", "target_without_group", "any_metric")

    def __init__(self, spec: Object, old: Object | None, ctx: StrategyContext) -> None:
        before = old["spec"] if old is not None else {}
        self.lowest = 0 if gate(ctx, "HPAScaleToZero") or before.get("minReplicas") == 0 else 1
        now, then = spec.get("scaleTargetRef") or {}, before.get("scaleTargetRef") or {}
        same = all(now.get(part, "") == then.get(part, "") for part in ("apiVersion", "kind"))
        self.any_target = old is not None and same
        self.target_without_group = now.get("kind") == "ReplicationController"
        self.any_metric = any(
            _version_problem(metric["object"].get("describedObject") or {}, True)
            for metric in elements(before, "metrics")
            if metric.get("type") == "Object" and metric.get("object") is not None
        )


def _version_problem(ref: Object, without_group: bool) -> str:
    try:
        version = GroupVersion.parse(ref.get("apiVersion", ""))
    except ValueError as error:
        return str(error)
    return "" if without_group or version.group else "apiVersion must specify API group"


def _reference(ref: Object, path: Path, errors: Errors, any_version: bool, without_group: bool) -> None:
    for part in ("kind", "name"):
        value = ref.get(part, "")
        need(value, path, errors, part)
        report(is_path_segment_name(value) if value else (), value, path, errors, part)
    problem = "" if any_version else _version_problem(ref, without_group)
    if problem:
        errors.append(field.invalid(path.child("apiVersion"), ref.get("apiVersion", ""), problem))


def _described(source: Object, path: Path, errors: Errors, ctx: _Options) -> None:
    _reference(source.get("describedObject") or {}, path.child("describedObject"), errors, ctx.any_metric, True)


def _positive(quantity: str) -> bool:
    return quantities.parse(quantity).value > 0


def _target_type(target: Object, path: Path, errors: Errors, ctx: object) -> None:
    kind = target.get("type", "")
    need(kind, path, errors, "type", detail="must specify a metric target type")
    if kind not in _TARGET_TYPES:
        _IS_TYPE(kind, path.child("type"), errors, ctx)


_TARGET = at(
    "target",
    struct(
        _target_type,
        at("value", holds(_positive, "must be positive")),
        at("averageValue", holds(_positive, "must be positive")),
        at("averageUtilization", holds(lambda percent: percent >= 1, "must be greater than 0")),
    ),
    zero={},
)


def _has(*parts: str, text: str, shown: str = "averageValue") -> Rule:
    """Requires one of the target's values."""

    def validate(source: Object, path: Path, errors: Errors, ctx: object) -> None:
        target = source.get("target") or {}
        if all(target.get(part) is None for part in parts):
            errors.append(field.required(path.child("target", shown), text))

    return validate


def _not_both(first: str, second: str, text: str) -> Rule:
    def validate(source: Object, path: Path, errors: Errors, ctx: object) -> None:
        target = source.get("target") or {}
        if target.get(first) is not None and target.get(second) is not None:
            errors.append(field.forbidden(path.child("target", first), text))

    return validate


_RAW_OR_UTILIZATION = (
    _has(
        "averageUtilization",
        "averageValue",
        text="must set either a target raw value or a target utilization",
        shown="averageUtilization",
    ),
    _not_both("averageValue", "averageUtilization", "may not set both a target raw value and a target utilization"),
)
_RULES: dict[str, Rule] = {
    "object": struct(
        _described,
        _METRIC,
        _TARGET,
        _has("value", "averageValue", text="must set either a target value or averageValue"),
    ),
    "external": struct(
        _METRIC,
        _TARGET,
        _has("value", "averageValue", text="must set either a target value for metric or a per-pod target"),
        _not_both("value", "averageValue", "may not set both a target value for metric and a per-pod target"),
    ),
    "pods": struct(_METRIC, _TARGET, _has("averageValue", text="must specify a positive target averageValue")),
    "resource": struct(required("name", "must specify a resource name"), _TARGET, *_RAW_OR_UTILIZATION),
    "containerResource": struct(
        required(
            "name",
            "must specify a resource name",
            then=lambda value, path, errors, ctx: validate_container_resource_name(value, path, errors),
        ),
        required("container", "must specify a container", then=check(is_dns1123_label)),
        _TARGET,
        *_RAW_OR_UTILIZATION,
    ),
}


def _metric(metric: Object, path: Path, errors: Errors, ctx: _Options) -> None:
    kind, listed = metric.get("type", ""), sorted(_SOURCES)
    need(kind, path, errors, "type", detail="must specify a metric source type")
    if kind not in _SOURCES:
        errors.append(not_supported(path.child("type"), kind, listed))
    present = [part for part in _RULES if metric.get(part) is not None]
    if present:
        _RULES[present[0]](metric[present[0]], path.child(present[0]), errors, ctx)
    expected = _FIELDS.get(kind, "")
    if not expected:
        errors.append(not_supported(path.child("type"), kind, listed))
    elif expected not in present:
        errors.append(field.required(path.child(expected), "must populate information for the given metric source"))
    if len(present) != 1:
        for part in sorted(present):
            if part != expected:
                errors.append(field.forbidden(path.child(part), "must populate the given metric source only"))


def _window_texts(seconds: int) -> tuple[str, ...]:
    if seconds < 0:
        return ("must be greater than or equal to zero",)
    return ("must be less than or equal to 3600",) if seconds > 3600 else ()


def _period_texts(seconds: int) -> tuple[str, ...]:
    if seconds <= 0:
        return ("must be greater than zero",)
    return ("must be less than or equal to 1800",) if seconds > 1800 else ()


_SCALING = struct(
    at("stabilizationWindowSeconds", check(_window_texts)),
    at("selectPolicy", enum("Max", "Min", "Disabled")),
    required("policies", "must specify at least one Policy"),
    at(
        "policies",
        each(
            struct(
                at("type", enum("Pods", "Percent"), zero=""),
                at("value", holds(lambda value: value > 0, "must be greater than zero"), zero=0),
                at("periodSeconds", check(_period_texts), zero=0),
            )
        ),
    ),
    at("tolerance", holds(lambda value: quantities.parse(value).value >= 0, "must be greater than or equal to 0")),
)
_BEHAVIOR = struct(at("scaleUp", _SCALING), at("scaleDown", _SCALING))


def validate_spec(spec: Object, errors: Errors, options: _Options) -> None:
    lowest, highest = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if lowest is not None and lowest < options.lowest:
        text = f"must be greater than or equal to {options.lowest}"
        errors.append(field.invalid(_SPEC.child("minReplicas"), lowest, text))
    here = _SPEC.child("maxReplicas")
    if highest == 0:
        errors.append(field.required(here, "must be set and greater than 0"))
    elif highest < 0:
        errors.append(field.invalid(here, highest, "must be greater than or equal to 1"))
    if lowest is not None and highest < lowest:
        errors.append(field.invalid(here, highest, "must be greater than or equal to `minReplicas`"))
    ref, place = spec.get("scaleTargetRef") or {}, _SPEC.child("scaleTargetRef")
    _reference(ref, place, errors, options.any_target, options.target_without_group)
    metrics = spec.get("metrics") or []
    for i, metric in enumerate(metrics):
        _metric(metric, _SPEC.child("metrics").index(i), errors, options)
    if lowest == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(field.forbidden(_SPEC.child("metrics"), text))
    behavior = spec.get("behavior")
    if behavior is not None:
        _BEHAVIOR(behavior, _SPEC.child("behavior"), errors, None)


# -- strategy ----------------------------------------------------------------------------------------------------------


class AutoscalerStrategy(PlainStrategy):
    reset_fields = ("status",)
    empty_status = {"desiredReplicas": 0, "currentMetrics": None}
    default_policies = True  # whether scaling rules without policies get the default ones

    def default(self, obj: Object) -> None:
        drop_own_annotations(obj)
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        spec["metrics"] = spec.get("metrics") or [cpu_metric(DEFAULT_UTILIZATION)]
        behavior = spec.get("behavior")
        if behavior is not None:
            for part, rules in (("scaleUp", _UP), ("scaleDown", _DOWN)):
                given = {key: value for key, value in entries(behavior, part) if value is not None}
                defaults = tree.copy(rules)
                if behavior.get(part) is not None and not self.default_policies:
                    del defaults["policies"]
                behavior[part] = {**defaults, **given}

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if gate(ctx, "HPAConfigurableTolerance"):
            return
        before = ((old or {}).get("spec") or {}).get("behavior") or {}
        if not any((before.get(part) or {}).get("tolerance") is not None for part in ("scaleUp", "scaleDown")):
            for part in ("scaleUp", "scaleDown"):
                ((obj["spec"].get("behavior") or {}).get(part) or {}).pop("tolerance", None)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_spec(obj["spec"], errors, _Options(obj["spec"], old, ctx))


class AutoscalerV1Strategy(AutoscalerStrategy):
    default_policies = False  # v1 has behaviour only in an annotation, without defaults


class AutoscalerStatusStrategy(PlainStatusStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        validate_counts(obj.get("status") or {}, _STATUS, errors, ("currentReplicas", "desiredReplicas"))


# -- table -------------------------------------------------------------------------------------------------------------


def _metric_text(metric: Object, status: Object) -> str:
    kind = _FIELDS.get(metric.get("type", ""))
    if kind is None:
        return "<unknown type>"
    source = metric.get(kind) or {}
    target, current = source.get("target") or {}, (status.get(kind) or {}).get("current") or {}
    absent = UNKNOWN if status.get(kind) is None else "<nil>"
    prefix = f"{source.get('name', '')}: " if kind in ("resource", "containerResource") else ""
    if kind == "pods" or target.get("averageValue") is not None:
        suffix = " (avg)" if kind in ("object", "external") else ""
        absent = UNKNOWN if suffix else absent
        return f"{prefix}{current.get('averageValue') or absent}/{target.get('averageValue')}{suffix}"
    if prefix:
        used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        shown = UNKNOWN if used is None else f"{used}%"
        return f"{prefix}{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
    return f"{current.get('value') or absent}/{target.get('value')}"


def _targets(obj: Object, now: float) -> str:
    metrics = obj["spec"].get("metrics") or []
    if not metrics:
        return NONE
    current = (obj.get("status") or {}).get("currentMetrics") or []
    texts = [_metric_text(metric, current[i] if i < len(current) else {}) for i, metric in enumerate(metrics)]
    shown = ", ".join(texts[:2])
    return f"{shown} + {len(texts) - 2} more..." if len(texts) > 2 else shown


def _target(obj: Object, now: float) -> str:
    ref = obj["spec"].get("scaleTargetRef") or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _lowest(obj: Object, now: float) -> str:
    lowest = obj["spec"].get("minReplicas")
    return UNSET if lowest is None else str(lowest)


STRATEGY = AutoscalerStrategy()
TABLE = table(
    NAME,
    column("Reference", _target, ".spec.scaleTargetRef"),
    column("Targets", _targets, ".spec.metrics"),
    column("MinPods", _lowest, FieldText("api.autoscaling.v1.HorizontalPodAutoscalerSpec", "minReplicas")),
    field_column("MaxPods", ".spec.maxReplicas", empty=0),
    field_column("Replicas", ".status.currentReplicas", empty=0),
    AGE,
    of="api.autoscaling.v2.HorizontalPodAutoscaler",
)
STATUS = Subresource("status", kind="HorizontalPodAutoscaler", strategy=AutoscalerStatusStrategy(STRATEGY))

RESOURCE = Resource(
    *type_meta("autoscaling/v2", "HorizontalPodAutoscaler"),
    short_names=("hpa",),
    categories=("all",),
    subresources=(STATUS,),
    strategy=STRATEGY,
    table=TABLE,
)

RESOURCE_V1 = Resource(
    *type_meta("autoscaling/v1", "HorizontalPodAutoscaler"),
    short_names=("hpa",),
    categories=("all",),
    subresources=(STATUS,),
    strategy=AutoscalerV1Strategy(),
    table=replace(TABLE, of_stored=True),
    storage_version="v2",
    to_storage=from_v1,
    from_storage=to_v1,
)
