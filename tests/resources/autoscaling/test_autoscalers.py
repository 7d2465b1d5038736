"""Autoscalers: rules of autoscaling/v2, and autoscaling/v1 without a loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.autoscaling import horizontalpodautoscalers
from kapi.resources.autoscaling.conversion import from_v1, to_v1
from kapi.resources.definition import StrategyContext

CTX = StrategyContext("n", "h", now="2024-01-01T00:00:00Z")
STRATEGY = horizontalpodautoscalers.RESOURCE.strategy
CPU: Object = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
PODS: Object = {
    "type": "Pods",
    "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


def scaler(**spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    obj: Object = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "n", "uid": "u"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": target, **spec},
    }
    STRATEGY.default(obj)
    return obj


def problems(**spec: Any) -> list[str]:
    obj = scaler(**spec)
    STRATEGY.prepare_for_create(obj, CTX)
    return [str(error) for error in STRATEGY.validate(obj, CTX)]


def test_defaults() -> None:
    spec = scaler()["spec"]
    assert spec["minReplicas"] == 1
    target = {"type": "Utilization", "averageUtilization": 80}
    assert spec["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    up = scaler(behavior={"scaleUp": {}})["spec"]["behavior"]["scaleUp"]
    both = [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]
    assert up == {"selectPolicy": "Max", "stabilizationWindowSeconds": 0, "policies": both}
    down = scaler(behavior={"scaleDown": {}})["spec"]["behavior"]["scaleDown"]
    assert down == {"selectPolicy": "Max", "policies": both[1:]}


def test_no_policies_are_not_the_default_ones() -> None:
    lines = problems(behavior={"scaleUp": {"policies": []}, "scaleDown": {}})
    assert lines == ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"maxReplicas": 0}, "spec.maxReplicas: Required value: must be set and greater than 0"),
        ({"minReplicas": 5}, "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"),
        ({"scaleTargetRef": {"kind": "", "name": "d"}}, "spec.scaleTargetRef.kind: Required value"),
        ({"metrics": [{"type": "Odd"}]}, 'spec.metrics[0].type: Unsupported value: "Odd"'),
        ({"metrics": [{"type": "Pods"}]}, "spec.metrics[0].pods: Required value"),
        (
            {"behavior": {"scaleDown": {"selectPolicy": "Some"}}},
            'spec.behavior.scaleDown.selectPolicy: Unsupported value: "Some"',
        ),
    ],
)
def test_what_autoscalers_may_not_be(spec: Object, text: str) -> None:
    lines = problems(**spec)
    assert any(line.startswith(text) for line in lines), lines


def test_version_1_shows_cpu_and_keeps_the_rest_in_annotations() -> None:
    behavior = {"scaleUp": {"selectPolicy": "Max"}}
    stored = scaler(metrics=[PODS, CPU], behavior=behavior)
    shown = to_v1(tree.copy(stored))
    assert (shown["apiVersion"], shown["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 50)
    kept = json.loads(shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"])
    assert [metric["type"] for metric in kept] == ["Pods"]
    again = from_v1(shown)
    assert (again["spec"], again["metadata"]) == (stored["spec"], stored["metadata"])


OWN = "autoscaling.alpha.kubernetes.io/"
SELECTOR: Object = {"matchLabels": {"a": "b"}}
METRIC: Object = {"name": "hits", "selector": SELECTOR}
TARGET: Object = {"kind": "D", "name": "d"}


@pytest.mark.parametrize(
    ("kind", "source", "values", "spec", "status"),
    [
        ("Resource", {"name": "memory"}, {"averageUtilization": 5},
         {"name": "memory", "targetAverageUtilization": 5},
         {"name": "memory", "currentAverageUtilization": 5, "currentAverageValue": "0"}),
        ("Resource", {"name": "cpu"}, {"averageValue": "2"},
         {"name": "cpu", "targetAverageValue": "2"}, {"name": "cpu", "currentAverageValue": "2"}),
        ("ContainerResource", {"name": "cpu", "container": "c"}, {"averageValue": "2"},
         {"name": "cpu", "targetAverageValue": "2", "container": "c"},
         {"name": "cpu", "currentAverageValue": "2", "container": "c"}),
        ("Pods", {"metric": METRIC}, {"averageValue": "2"},
         {"metricName": "hits", "targetAverageValue": "2", "selector": SELECTOR},
         {"metricName": "hits", "currentAverageValue": "2", "selector": SELECTOR}),
        ("Pods", {"metric": {"name": "hits"}}, {},
         {"metricName": "hits", "targetAverageValue": "0"}, {"metricName": "hits", "currentAverageValue": "0"}),
        ("Object", {"metric": METRIC, "describedObject": TARGET}, {"value": "1", "averageValue": "2"},
         {"target": TARGET, "metricName": "hits", "targetValue": "1", "selector": SELECTOR, "averageValue": "2"},
         {"target": TARGET, "metricName": "hits", "currentValue": "1", "selector": SELECTOR, "averageValue": "2"}),
        ("Object", {"metric": {"name": "hits"}, "describedObject": TARGET}, {},
         {"target": TARGET, "metricName": "hits", "targetValue": "0"},
         {"target": TARGET, "metricName": "hits", "currentValue": "0"}),
        ("External", {"metric": METRIC}, {"value": "1"},
         {"metricName": "hits", "metricSelector": SELECTOR, "targetValue": "1"},
         {"metricName": "hits", "metricSelector": SELECTOR, "currentValue": "1"}),
        ("External", {"metric": {"name": "hits"}}, {"averageValue": "2"},
         {"metricName": "hits", "targetAverageValue": "2"},
         {"metricName": "hits", "currentValue": "0", "currentAverageValue": "2"}),
    ],
)  # fmt: skip
def test_metrics_in_the_annotations_of_version_1(
    kind: str, source: Object, values: Object, spec: Object, status: Object
) -> None:
    field = kind[0].lower() + kind[1:]
    stored = scaler(metrics=[{"type": kind, field: {**source, "target": values}}])
    stored["status"] = {"currentMetrics": [{"type": kind, field: {**source, "current": values}}]}
    annotations = to_v1(stored)["metadata"]["annotations"]
    assert json.loads(annotations[OWN + "metrics"]) == [{"type": kind, field: spec}]
    assert json.loads(annotations[OWN + "current-metrics"]) == [{"type": kind, field: status}]


def test_version_1_status() -> None:
    stored = scaler(metrics=[CPU])
    resource = {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "2"}}
    stored["status"] = {
        "currentReplicas": 1,
        "desiredReplicas": 2,
        "currentMetrics": [{"type": "Resource", "resource": resource}],
        "conditions": [
            {"type": "AbleToScale", "status": "True", "lastTransitionTime": None, "reason": "R", "message": "m"}
        ],
    }
    shown = to_v1(tree.copy(stored))
    assert shown["status"]["currentCPUUtilizationPercentage"] == 40
    again = from_v1(shown)
    assert again["status"]["currentMetrics"] == stored["status"]["currentMetrics"]


def test_both_versions_are_one_resource() -> None:
    old = horizontalpodautoscalers.RESOURCE_V1
    assert old.storage_version == "v2" and old.to_storage is not None and old.from_storage is not None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metrics", "["),
        ("metrics", "[" * 100_000),
        ("metrics", '[{"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": NaN}}]'),
        ("metrics", "{}"),
        ("metrics", "[1]"),
        ("metrics", '[{"type": 5}]'),
        ("metrics", '[{"type": "Pods", "pods": 5}]'),
        ("metrics", '[{"type": "Pods", "pods": {"metricName": "hits", "targetAverageValue": "many"}}]'),
        ("metrics", '[{"type": "Pods", "pods": {"metricName": {}, "targetAverageValue": "1"}}]'),
        ("metrics", '[{"type": "Object", "object": {"target": "d"}}]'),
        ("current-metrics", '[{"type": "Pods", "pods": {"currentAverageValue": "many"}}]'),
        ("behavior", '{"ScaleUp": {"SelectPolicy": 5}}'),
        ("behavior", '{"ScaleUp": {"Policies": {}}}'),
        ("conditions", '[{"type": []}]'),
        ("conditions", '["type"]'),
    ],
)
def test_an_annotation_that_cannot_be_read_is_none(name: str, text: str) -> None:
    obj = from_v1(
        {
            "apiVersion": "autoscaling/v1",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "annotations": {OWN + name: text}},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
        }
    )
    assert obj["spec"] == {"maxReplicas": 3, "metrics": [CPU]}
    assert (obj["status"], obj["metadata"]) == ({"desiredReplicas": 0, "currentMetrics": None}, {"name": "h"})


def test_rules_in_an_annotation_of_v1_get_no_default_policies() -> None:
    strategy = horizontalpodautoscalers.RESOURCE_V1.strategy
    obj = to_v1(scaler())
    rules = {"ScaleUp": {"StabilizationWindowSeconds": 5}}
    obj["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/behavior": json.dumps(rules)}
    stored = from_v1(obj)
    strategy.default(stored)
    behavior = stored["spec"]["behavior"]
    assert behavior["scaleUp"] == {"selectPolicy": "Max", "stabilizationWindowSeconds": 5}
    assert behavior["scaleDown"]["policies"]
    lines = [str(error) for error in strategy.validate(stored, CTX)]
    assert lines == ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("[null]", {"type": ""}),
        (
            '[{"Type": "Pods", "PODS": {"MetricName": "hits", "targetaveragevalue": "1"}}]',
            {
                "type": "Pods",
                "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1"}},
            },
        ),
        (
            '[{"type": "Object", "object": {"target": {"Kind": "K", "name": "n"}, "metricName": "m", "averageValue": "1"}}]',
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "m"},
                    "describedObject": {"kind": "K", "name": "n"},
                    "target": {"type": "AverageValue", "value": "0", "averageValue": "1"},
                },
            },
        ),
    ],
    ids=["nothing", "names in any case", "no value"],
)
def test_a_metric_in_an_annotation_is_read_as_go_does(text: str, metric: Object) -> None:
    obj = to_v1(scaler())
    obj["metadata"]["annotations"] = {OWN + "metrics": text}
    obj["spec"].pop("targetCPUUtilizationPercentage", None)
    assert from_v1(obj)["spec"]["metrics"] == [metric]


def test_a_target_with_an_average_only_is_refused_when_it_comes_back_from_v1() -> None:
    """As upstream (kubernetes/kubernetes#87733): v1 has to give a targetValue, and it is 0."""
    wish = {"metric": {"name": "m"}, "describedObject": {"kind": "K", "name": "n", "apiVersion": "v1"}}
    obj = scaler()
    target = {"type": "AverageValue", "averageValue": "1"}
    obj["spec"]["metrics"] = [{"type": "Object", "object": {**wish, "target": target}}]
    lines = [str(error) for error in horizontalpodautoscalers.RESOURCE_V1.strategy.validate(from_v1(to_v1(obj)), CTX)]
    assert lines == ['spec.metrics[0].object.target.value: Invalid value: "0": must be positive']


TOLERANT: Object = {"scaleUp": {"tolerance": "100m"}, "scaleDown": {"tolerance": "200m"}}


@pytest.mark.parametrize(
    ("gate", "before", "kept"),
    [
        (True, None, ["100m", "200m"]), (False, None, [None, None]), (False, {}, [None, None]),
        (False, {"behavior": None}, [None, None]), (False, {"behavior": {"scaleUp": None}}, [None, None]),
        (False, {"behavior": {"scaleUp": {"tolerance": "1"}}}, ["100m", "200m"]),
        (False, {"behavior": {"scaleDown": {"tolerance": "0"}}}, ["100m", "200m"]),
    ],
)  # fmt: skip
def test_a_tolerance_needs_its_gate_unless_there_was_one(
    gate: bool, before: Object | None, kept: list[str | None]
) -> None:
    ctx = StrategyContext("default", "h", now="2024-01-01T00:00:00Z", features={"HPAConfigurableTolerance": gate})
    strategy, new = (
        horizontalpodautoscalers.RESOURCE.strategy,
        {"metadata": {}, "spec": {"behavior": tree.copy(TOLERANT)}},
    )
    if before is None:
        strategy.prepare_for_create(new, ctx)
    else:
        strategy.prepare_for_update(new, {"metadata": {}, "spec": before}, ctx)
    assert [part.get("tolerance") for part in new["spec"]["behavior"].values()] == kept


AVERAGE, VALUE = {"averageValue": "10"}, {"value": "5"}


@pytest.mark.parametrize(
    ("kind", "target", "current", "text"),
    [
        ("Pods", AVERAGE, AVERAGE, "10/10"), ("Pods", AVERAGE, {}, "<nil>/10"), ("Pods", AVERAGE, None, "<unknown>/10"),
        ("Object", VALUE, VALUE, "5/5"), ("Object", VALUE, {}, "<nil>/5"), ("Object", VALUE, None, "<unknown>/5"),
        ("Object", AVERAGE, AVERAGE, "10/10 (avg)"), ("Object", AVERAGE, {}, "<unknown>/10 (avg)"),
        ("External", AVERAGE, AVERAGE, "10/10 (avg)"), ("External", AVERAGE, None, "<unknown>/10 (avg)"),
        ("External", VALUE, VALUE, "5/5"),
        ("Resource", AVERAGE, AVERAGE, "cpu: 10/10"), ("Resource", AVERAGE, {}, "cpu: <nil>/10"),
        ("Resource", AVERAGE, None, "cpu: <unknown>/10"), ("ContainerResource", AVERAGE, AVERAGE, "cpu: 10/10"),
        ("Resource", {"averageUtilization": 80}, {"averageUtilization": 40}, "cpu: 40%/80%"),
        ("Resource", {"averageUtilization": 80}, {}, "cpu: <unknown>/80%"), ("Resource", {}, {}, "cpu: <unknown>/<auto>"),
        ("ContainerResource", {"averageUtilization": 80}, {"averageUtilization": 0}, "cpu: 0%/80%"),
        ("Other", {}, {}, "<unknown type>"),
    ],
)  # fmt: skip
def test_targets_in_tables(kind: str, target: Object, current: Object | None, text: str) -> None:
    """Upstream's ``formatHPAMetrics``."""
    field = kind[0].lower() + kind[1:]
    metric: Object = {"type": kind, field: {"name": "cpu", "target": target}}
    status = [] if current is None else [{"type": kind, field: {"name": "cpu", "current": current}}]
    obj = {"metadata": {"name": "h"}, "spec": {"metrics": [metric]}, "status": {"currentMetrics": status}}
    table = horizontalpodautoscalers.RESOURCE.table
    assert table is not None
    names = [column.name for column in table.columns]
    assert table.cells(obj, 0.0)[names.index("Targets")] == text


@pytest.mark.parametrize(
    ("kind", "spec", "status", "metric", "current"),
    [
        ("Resource", {"name": "memory", "targetAverageUtilization": 5}, {"name": "memory", "currentAverageUtilization": 5,
         "currentAverageValue": "0"},
         {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 5}},
         {"name": "memory", "current": {"averageValue": "0", "averageUtilization": 5}}),
        ("Resource", {"name": "cpu", "targetAverageValue": "2"}, {"name": "cpu"},
         {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "2"}},
         {"name": "cpu", "current": {"averageValue": "0"}}),
        ("ContainerResource", {"name": "cpu", "container": "c", "targetAverageUtilization": 5}, {"name": "cpu",
         "container": "c", "currentAverageValue": "2"},
         {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 5}},
         {"name": "cpu", "container": "c", "current": {"averageValue": "2"}}),
        ("ContainerResource", {"name": "cpu", "targetAverageValue": "2"}, {"name": "cpu", "container": "c",
         "currentAverageUtilization": 4},
         {"name": "cpu", "container": "", "target": {"type": "AverageValue", "averageValue": "2"}},
         {"name": "cpu", "container": "c", "current": {"averageValue": "0", "averageUtilization": 4}}),
        ("Pods", {"metricName": "hits", "targetAverageValue": "2", "selector": SELECTOR}, {"metricName": "hits",
         "currentAverageValue": "2", "selector": SELECTOR},
         {"metric": {"name": "hits", "selector": SELECTOR}, "target": {"type": "AverageValue", "averageValue": "2"}},
         {"metric": {"name": "hits", "selector": SELECTOR}, "current": {"averageValue": "2"}}),
        ("Pods", {"metricName": "hits"}, {"metricName": "hits"},
         {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "0"}},
         {"metric": {"name": "hits"}, "current": {"averageValue": "0"}}),
        ("Object", {"target": TARGET, "metricName": "hits", "targetValue": "1", "selector": SELECTOR}, {"target": TARGET,
         "metricName": "hits", "currentValue": "1", "averageValue": "2"},
         {"metric": {"name": "hits", "selector": SELECTOR}, "describedObject": TARGET, "target": {"type": "Value",
         "value": "1"}},
         {"metric": {"name": "hits"}, "describedObject": TARGET, "current": {"value": "1", "averageValue": "2"}}),
        ("Object", {"target": TARGET, "metricName": "hits", "targetValue": "1", "averageValue": "2"}, {"target": TARGET,
         "metricName": "hits"},
         {"metric": {"name": "hits"}, "describedObject": TARGET, "target": {"type": "AverageValue", "value": "1",
         "averageValue": "2"}},
         {"metric": {"name": "hits"}, "describedObject": TARGET, "current": {"value": "0"}}),
        ("External", {"metricName": "hits", "metricSelector": SELECTOR, "targetValue": "1"}, {"metricName": "hits",
         "currentValue": "1"},
         {"metric": {"name": "hits", "selector": SELECTOR}, "target": {"type": "Value", "value": "1"}},
         {"metric": {"name": "hits"}, "current": {"value": "1"}}),
        ("External", {"metricName": "hits", "targetAverageValue": "2"}, {"metricName": "hits", "currentAverageValue": "2",
         "metricSelector": SELECTOR},
         {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "2"}},
         {"metric": {"name": "hits", "selector": SELECTOR}, "current": {"value": "0", "averageValue": "2"}}),
        ("External", {"metricName": "hits"}, {"metricName": "hits"},
         {"metric": {"name": "hits"}, "target": {"type": "AverageValue"}},
         {"metric": {"name": "hits"}, "current": {"value": "0"}}),
    ],
)  # fmt: skip
def test_a_metric_of_version_1(kind: str, spec: Object, status: Object, metric: Object, current: Object) -> None:
    field = kind[0].lower() + kind[1:]
    obj = to_v1(scaler())
    obj["spec"].pop("targetCPUUtilizationPercentage", None)
    parts = (("metrics", spec), ("current-metrics", status))
    obj["metadata"]["annotations"] = {OWN + name: json.dumps([{"type": kind, field: part}]) for name, part in parts}
    found = from_v1(obj)
    assert found["spec"]["metrics"] == [{"type": kind, field: metric}]
    assert found["status"]["currentMetrics"] == [{"type": kind, field: current}]
