"""Lossless conversion of HorizontalPodAutoscalers between versions (upstream: ``pkg/apis/autoscaling/v1/conversion.go``).

Annotations contain the values for which v1 has no fields: metrics other than CPU, their current values, behaviour, conditions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import orjson

from kapi.machinery.each import entries
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared.internal import fields_of, internal, is_internal
from kapi.schema.builtin import type_of
from kapi.schema.decode_exact import ExactDecoder

_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, CURRENT = _PREFIX + "metrics", _PREFIX + "current-metrics"
CONDITIONS, BEHAVIOR = _PREFIX + "conditions", _PREFIX + "behavior"
_OWN = frozenset(
    {METRICS, CURRENT, CONDITIONS, BEHAVIOR, _PREFIX + "scale-down-tolerance", _PREFIX + "scale-up-tolerance"}
)
DEFAULT_UTILIZATION = 80  # percent of the requested CPU
_SOURCES = ("object", "pods", "resource", "containerResource", "external")
#: the names of fields in the annotations of metrics, by their lower case
_NAMES: Mapping[str, str] = {
    name.lower(): name
    for name in (
        *("type", *_SOURCES, "target", "kind", "name", "apiVersion", "container", "metricName", "selector"),
        *("metricSelector", "averageValue", "targetValue", "targetAverageValue", "targetAverageUtilization"),
        *("currentValue", "currentAverageValue", "currentAverageUtilization"),
    )
}
_BEHAVIOR = "HorizontalPodAutoscalerBehavior"
_KIND = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")


def _present(**values: object) -> Object:
    return {key: value for key, value in values.items() if value is not None}


def cpu_metric(utilization: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _is_cpu_utilization(metric: Object) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def drop_own_annotations(obj: Object) -> None:
    """Drops the conversion's annotations, which have no meaning in v2."""
    annotations = obj["metadata"].get("annotations")
    if annotations and not _OWN.isdisjoint(annotations):
        kept = {key: value for key, value in annotations.items() if key not in _OWN}
        obj["metadata"]["annotations"] = kept
        if not kept:
            del obj["metadata"]["annotations"]


# -- v2 to v1 ----------------------------------------------------------------------------------------------------------


def _reference(ref: Mapping[str, Tree]) -> Object:
    shown: Object = {"kind": ref.get("kind", ""), "name": ref.get("name", "")}
    if ref.get("apiVersion"):
        shown["apiVersion"] = ref["apiVersion"]
    return shown


def _metric_to_v1(metric: Object, current: bool) -> Object:
    """A metric's source, or its status with ``current``, in the form of v1's annotations."""
    shown: Object = {"type": metric.get("type", "")}
    word = "current" if current else "target"
    for kind in _SOURCES:
        source = metric.get(kind)
        if source is None:
            continue
        values = source.get(word) or {}
        identity = source.get("metric") or {}
        name, selector = identity.get("name", ""), identity.get("selector")
        average, value = values.get("averageValue"), values.get("value")
        if kind == "object":
            part = {"target": _reference(source.get("describedObject") or {}), "metricName": name}
            part[word + "Value"] = value or "0"
            part |= _present(selector=selector, averageValue=average)
        elif kind == "pods":
            part = {"metricName": name, word + "AverageValue": average or "0", **_present(selector=selector)}
        elif kind == "external":
            part = {"metricName": name, **_present(metricSelector=selector)}
            if current:
                part |= {"currentValue": value or "0", **_present(currentAverageValue=average)}
            else:
                part |= _present(targetValue=value, targetAverageValue=average)
        else:
            part = {"name": source.get("name", "")}
            part |= _present(**{word + "AverageUtilization": values.get("averageUtilization")})
            if average is not None or current:
                part[word + "AverageValue"] = average or "0"
            if kind == "containerResource":
                part["container"] = source.get("container", "")
        shown[kind] = part
    return shown


def _encode(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def to_v1(obj: Object) -> Object:
    """The v1 form of a stored (v2) object."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    annotations = {k: v for k, v in entries(obj["metadata"], "annotations") if k not in _OWN}
    others = [_metric_to_v1(metric, current=False) for metric in metrics if not _is_cpu_utilization(metric)]
    if others:
        annotations[METRICS] = _encode(others)
    if current:
        annotations[CURRENT] = _encode([_metric_to_v1(metric, current=True) for metric in current])
    if spec.get("behavior") is not None:
        annotations[BEHAVIOR] = _encode(internal(_BEHAVIOR, spec["behavior"]))
    if status.get("conditions"):
        annotations[CONDITIONS] = _encode([_condition(condition) for condition in status["conditions"]])
    metadata = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    cpu = next((metric for metric in metrics if _is_cpu_utilization(metric)), None)
    shown = {key: spec[key] for key in ("scaleTargetRef", "minReplicas", "maxReplicas") if key in spec}
    if cpu is not None:
        shown["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    return {"kind": obj["kind"], "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": shown} | {
        "status": _status_to_v1(status, current)
    }


def _condition(condition: Object) -> Object:
    shown = {key: condition.get(key, "") for key in ("type", "status")}
    shown["lastTransitionTime"] = condition.get("lastTransitionTime")
    return shown | {key: condition[key] for key in ("reason", "message") if condition.get(key)}


def _status_to_v1(status: Object, current: list[Object]) -> Object:
    shown: Object = {key: status[key] for key in ("observedGeneration", "lastScaleTime") if key in status}
    shown |= {key: status.get(key, 0) for key in ("currentReplicas", "desiredReplicas")}
    for metric in current:
        resource = metric.get("resource") or {}
        used = (resource.get("current") or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and resource.get("name") == "cpu" and used is not None:
            shown["currentCPUUtilizationPercentage"] = used
    return shown


# -- v1 to v2 ----------------------------------------------------------------------------------------------------------


def _decode(text: str | None) -> Tree:
    """The value of an annotation; None for invalid JSON."""
    if text is None:
        return None
    try:
        return orjson.loads(text)  # it refuses NaN and too deep nesting
    except ValueError:
        return None


def _named(value: Tree) -> Object:
    """The fields of an object of an annotation; their names match in any case, as for Go's JSON decoder.

    None counts as an empty one.  Raises TypeError for a value that is no object.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(value)
    return {_NAMES.get(name.lower(), name): item for name, item in value.items()}


def _metric_from_v1(given: Tree, current: bool) -> Object:
    """The v2 form of a metric of an annotation.  Raises TypeError for a metric or source that is no object."""
    metric = _named(given)
    shown: Object = {"type": metric.get("type") or ""}
    word = "current" if current else "target"
    for kind in _SOURCES:
        if metric.get(kind) is None:
            continue
        source = _named(metric[kind])
        average, value = source.get(word + "AverageValue"), source.get(word + "Value")
        utilization = source.get(word + "AverageUtilization")
        if kind == "object":
            average = source.get("averageValue")
            value = value or "0"  # upstream, too, refuses it for a target with an averageValue only
        elif kind == "pods":
            average = average or "0"
        elif kind == "external" and current:
            value = value or "0"
        elif current:
            average = average or "0"
        values = _present(value=value, averageValue=average, averageUtilization=utilization)
        if not current:
            values = {"type": _target_type(kind, average, value, utilization), **values}
        if kind in ("resource", "containerResource"):
            part: Object = {"name": source.get("name", "")}
            if kind == "containerResource":
                part["container"] = source.get("container", "")
        else:
            selector = source.get("metricSelector" if kind == "external" else "selector")
            part = {"metric": {"name": source.get("metricName", ""), **_present(selector=selector)}}
            if kind == "object":
                part["describedObject"] = _reference(_named(source.get("target")))
        shown[kind] = part | {word: values}
    return shown


def _target_type(kind: str, average: object, value: object, utilization: object) -> str:
    if kind in ("resource", "containerResource"):
        return "AverageValue" if utilization is None else "Utilization"
    if kind == "object":
        return "Value" if average is None else "AverageValue"
    return "AverageValue" if kind == "pods" or value is None else "Value"


def _from_internal(kind: str, value: object) -> Tree:
    """The API form of a value of ``internal``; names of fields match in any case, as for Go's JSON decoder."""
    if isinstance(value, list):
        return [_from_internal(kind, item) for item in value]
    if not isinstance(value, dict):
        return None
    given = {key.lower(): item for key, item in value.items()}
    shown: Object = {}
    for go_name, name, _, inner in fields_of(kind):
        item = given.get(go_name.lower())
        if item is None:
            continue
        shown[name] = _from_internal(inner, item) if is_internal(inner) else item
    return shown


def _typed(value: object, *path: str) -> Tree:
    """A value with the types of v2; None where Go could not decode it, which counts as no annotation."""
    type_ = type_of(_KIND)
    for name in path:
        type_ = type_.fields[name].type
    try:
        return None if value is None else ExactDecoder().decode(value, type_)
    except ValueError:
        return None


def _annotated(text: str | None, current: bool) -> list[Object] | None:
    """The metrics of an annotation."""
    metrics = _decode(text)
    if not isinstance(metrics, list):
        return None
    try:
        converted = [_metric_from_v1(metric, current) for metric in metrics]
    except TypeError:
        return None  # as one that is no JSON
    found: list[Object] | None = _typed(converted, *(("status", "currentMetrics") if current else ("spec", "metrics")))
    return found


def from_v1(obj: Object) -> Object:
    """The stored (v2) form of a v1 object."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    shown = {key: spec[key] for key in ("scaleTargetRef", "minReplicas", "maxReplicas") if key in spec}
    target = spec.get("targetCPUUtilizationPercentage")
    metrics = [] if target is None else [cpu_metric(target)]
    metrics = (_annotated(annotations.get(METRICS), current=False) or []) + metrics
    shown["metrics"] = metrics or [cpu_metric(DEFAULT_UTILIZATION)]
    behavior = _typed(_from_internal(_BEHAVIOR, _decode(annotations.get(BEHAVIOR))), "spec", "behavior")
    if behavior:
        shown["behavior"] = behavior
    state = {key: status[key] for key in ("observedGeneration", "lastScaleTime", "currentReplicas") if key in status}
    state["desiredReplicas"] = status.get("desiredReplicas", 0)
    used = status.get("currentCPUUtilizationPercentage")
    current = None
    if used is not None:
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}]
    stored = _annotated(annotations.get(CURRENT), current=True)
    state["currentMetrics"] = current if stored is None else stored
    conditions = _typed(_decode(annotations.get(CONDITIONS)), "status", "conditions")
    if conditions:
        state["conditions"] = conditions
    if not state.get("currentReplicas"):
        state.pop("currentReplicas", None)
    result = {**obj, "apiVersion": "autoscaling/v2", "metadata": dict(obj.get("metadata") or {})}
    drop_own_annotations(result)
    return {**result, "spec": shown, "status": state}
