"""What a HorizontalPodAutoscaler may say: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kapi.machinery.tree import Object
from kapi.resources.autoscaling.horizontalpodautoscalers import RESOURCE
from tests.resources.strategy_kit import CTX, changes, made, problems

REF = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
AVERAGE = {"type": "AverageValue", "averageValue": "1"}
ABOVE_MIN = "maxReplicas: Invalid value: {}: must be greater than or equal to `minReplicas`"
PODS = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": AVERAGE}}


def of_spec(**spec: Any) -> list[str]:
    found = problems(RESOURCE, spec={"scaleTargetRef": REF, "maxReplicas": 2, **spec})
    return [text.removeprefix("spec.") for text in found]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"minReplicas": 1, "maxReplicas": 1}, []),
        ({"minReplicas": -1}, ["minReplicas: Invalid value: -1: must be greater than or equal to 1"]),
        ({"minReplicas": 3}, ["maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"]),
        ({"scaleTargetRef": {**REF, "kind": ""}}, ["scaleTargetRef.kind: Required value"]),
        ({"scaleTargetRef": {**REF, "name": ""}}, ["scaleTargetRef.name: Required value"]),
        ({"scaleTargetRef": {**REF, "name": "a/b"}}, ["scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({"scaleTargetRef": {}},
         ["scaleTargetRef.kind: Required value", "scaleTargetRef.name: Required value",
          'scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group']),
        ({"minReplicas": 2}, []),
        ({"maxReplicas": 0}, ["maxReplicas: Required value: must be set and greater than 0", ABOVE_MIN.format(0)]),
        ({"maxReplicas": -1}, ["maxReplicas: Invalid value: -1: must be greater than or equal to 1", ABOVE_MIN.format(-1)]),
    ],
)  # fmt: skip
def test_spec(spec: Object, texts: list[str]) -> None:
    assert of_spec(**spec) == texts


def of_metric(**metric: Any) -> list[str]:
    return [text.removeprefix("metrics[0].") for text in of_spec(metrics=[metric])]


NAMED: dict[str, Object] = {
    "object": {"describedObject": REF, "metric": {"name": "m"}}, "external": {"metric": {"name": "m"}},
    "pods": {"metric": {"name": "m"}}, "resource": {"name": "cpu"}, "containerResource": {"name": "cpu", "container": "c"},
}  # fmt: skip
BOTH = {"averageValue": "1", "averageUtilization": 1}
RAW = "may not set both a target raw value and a target utilization"


@pytest.mark.parametrize(
    ("part", "source", "texts"),
    [
        ("object", {"target": {"type": "Value", "value": "1"}}, []),
        ("external", {"target": AVERAGE}, []),
        ("pods", {"target": AVERAGE}, []),
        ("resource", {"target": {"type": "Utilization", "averageUtilization": 1}}, []),
        ("containerResource", {"target": AVERAGE}, []),
        ("object", {"target": {"type": "Value"}},
         ["target.averageValue: Required value: must set either a target value or averageValue"]),
        ("object", {"describedObject": {**REF, "name": ""}, "target": AVERAGE}, ["describedObject.name: Required value"]),
        ("object", {"metric": {"name": ""}, "target": AVERAGE}, ["metric.name: Required value: must specify a metric name"]),
        *(
            (part, {"metric": {"name": ""}, "target": AVERAGE}, ["metric.name: Required value: must specify a metric name"])
            for part in ("external", "pods")
        ),
        *(
            (part, {"target": {**AVERAGE, "averageValue": "0"}}, ['target.averageValue: Invalid value: "0": must be positive'])
            for part in ("external", "containerResource")
        ),
        ("containerResource", {"name": "", "target": AVERAGE}, ["name: Required value: must specify a resource name"]),
        ("external", {"target": {"type": "Value"}},
         ["target.averageValue: Required value: must set either a target value for metric or a per-pod target"]),
        ("external", {"target": {"type": "Value", "value": "1", "averageValue": "1"}},
         ["target.value: Forbidden: may not set both a target value for metric and a per-pod target"]),
        ("pods", {"target": {"type": "AverageValue"}},
         ["target.averageValue: Required value: must specify a positive target averageValue"]),
        ("pods", {"target": {"type": "AverageValue", "averageValue": "0"}},
         ['target.averageValue: Invalid value: "0": must be positive']),
        ("object", {"target": {"type": "Value", "value": "0"}}, ['target.value: Invalid value: "0": must be positive']),
        ("resource", {"name": "", "target": AVERAGE}, ["name: Required value: must specify a resource name"]),
        ("resource", {"target": {"type": "Utilization", "averageUtilization": 0}},
         ["target.averageUtilization: Invalid value: 0: must be greater than 0"]),
        ("resource", {"target": {"type": "Utilization"}},
         ["target.averageUtilization: Required value: must set either a target raw value or a target utilization"]),
        ("resource", {"target": {"type": "Utilization", **BOTH}}, [f"target.averageValue: Forbidden: {RAW}"]),
        ("containerResource", {"target": {"type": "Utilization", **BOTH}}, [f"target.averageValue: Forbidden: {RAW}"]),
        ("containerResource", {"container": "", "target": AVERAGE}, ["container: Required value: must specify a container"]),
        ("containerResource", {"container": "a.b", "target": AVERAGE},
         ['container: Invalid value: "a.b": must not contain dots']),
        ("pods", {"target": {**AVERAGE, "type": "X"}},
         ["target.type: Invalid value: \"X\": must be either Utilization, Value, or AverageValue"]),
        ("pods", {"target": {**AVERAGE, "type": ""}},
         ["target.type: Required value: must specify a metric target type",
          "target.type: Invalid value: \"\": must be either Utilization, Value, or AverageValue"]),
    ],
)  # fmt: skip
def test_metric(part: str, source: Object, texts: list[str]) -> None:
    metric = {"type": part[0].upper() + part[1:], part: {**NAMED[part], **source}}
    assert of_metric(**metric) == [f"{part}.{text}" for text in texts]


def test_a_metric_has_one_source() -> None:
    kinds = '"ContainerResource", "External", "Object", "Pods", "Resource"'
    assert of_metric(type="Resource", pods=PODS["pods"])[0] == (
        "resource: Required value: must populate information for the given metric source"
    )
    resource = {"name": "cpu", "target": AVERAGE}
    assert of_metric(type="Pods", pods=PODS["pods"], resource=resource) == [
        "resource: Forbidden: must populate the given metric source only"
    ]
    # upstream says it twice
    unknown = f'type: Unsupported value: "{{}}": supported values: {kinds}'
    assert of_metric(type="X", pods=PODS["pods"]) == [unknown.format("X")] * 2
    assert of_metric(type="", pods=PODS["pods"]) == [
        "type: Required value: must specify a metric source type", *[unknown.format("")] * 2
    ]  # fmt: skip


POLICY = {"type": "Pods", "value": 1, "periodSeconds": 1}


@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
@pytest.mark.parametrize(
    ("rules", "texts"),
    [
        ({"stabilizationWindowSeconds": 3600, "selectPolicy": "Disabled", "policies": [{**POLICY, "periodSeconds": 1800}]}, []),
        ({"stabilizationWindowSeconds": 0}, []),
        ({"stabilizationWindowSeconds": -1},
         [".stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero"]),
        ({"stabilizationWindowSeconds": 3601},
         [".stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600"]),
        ({"selectPolicy": "X"}, ['.selectPolicy: Unsupported value: "X": supported values: "Disabled", "Max", "Min"']),
        ({"policies": []}, [".policies: Required value: must specify at least one Policy"]),
        ({"policies": [{**POLICY, "type": "X"}]},
         ['.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods"']),
        ({"policies": [{**POLICY, "value": 0}]}, [".policies[0].value: Invalid value: 0: must be greater than zero"]),
        ({"policies": [{**POLICY, "periodSeconds": 0}]},
         [".policies[0].periodSeconds: Invalid value: 0: must be greater than zero"]),
        ({"policies": [{**POLICY, "periodSeconds": 1801}]},
         [".policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800"]),
        ({"tolerance": "0"}, []),
        ({"tolerance": "-1m"}, ['.tolerance: Invalid value: "-1m": must be greater than or equal to 0']),
    ],
)  # fmt: skip
def test_behavior(direction: str, rules: Object, texts: list[str]) -> None:
    assert of_spec(behavior={direction: rules}) == [f"behavior.{direction}{text}" for text in texts]


def test_only_what_is_counted_outside_of_the_pods_scales_to_zero() -> None:
    ctx = replace(CTX, features={"HPAScaleToZero": True})
    spec: Object = {"scaleTargetRef": REF, "maxReplicas": 2, "minReplicas": 0}
    external = {"type": "External", "external": {"metric": {"name": "m"}, "target": AVERAGE}}
    assert problems(RESOURCE, ctx, spec={**spec, "metrics": [external]}) == []
    assert problems(RESOURCE, ctx, spec={**spec, "metrics": [PODS]}) == [
        "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"
    ]


@pytest.mark.parametrize("name", ["currentReplicas", "desiredReplicas"])
def test_counts_of_replicas(name: str) -> None:
    old = made(RESOURCE, spec={"scaleTargetRef": REF, "maxReplicas": 2})
    status = {"currentReplicas": 0, "desiredReplicas": 0, name: -1}
    assert changes(RESOURCE, old, subresource="status", status=status) == [
        f"status.{name}: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_a_largest_number_is_needed() -> None:
    found = problems(RESOURCE, spec={"scaleTargetRef": REF})
    assert [text.removeprefix("spec.") for text in found] == [
        "maxReplicas: Required value: must be set and greater than 0",
        ABOVE_MIN.format(0),
    ]


def test_a_wrong_version_of_the_target_may_stay_with_its_kind() -> None:
    wrong = {"kind": "Deployment", "name": "d", "apiVersion": "a/b/c"}
    old = made(RESOURCE, spec={"scaleTargetRef": wrong, "maxReplicas": 2})

    def of_change(**target: str) -> list[str]:
        return changes(RESOURCE, old, spec={**old["spec"], "scaleTargetRef": {**wrong, **target}})

    assert of_change() == of_change(name="e") == []
    text = 'spec.scaleTargetRef.apiVersion: Invalid value: "{}": unexpected GroupVersion string: {}'
    assert of_change(kind="ReplicaSet") == [text.format("a/b/c", "a/b/c")]
    assert of_change(apiVersion="d/e/f") == [text.format("d/e/f", "d/e/f")]
