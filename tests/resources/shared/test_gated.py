"""Fields of a feature gate that is off are dropped, unless the stored object has them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.customresourcedefinitions import RESOURCE as DEFINITION
from kapi.resources.apps.deployments import RESOURCE as DEPLOYMENT
from kapi.resources.apps.replicasets import RESOURCE as REPLICA_SET
from kapi.resources.core.pods import RESOURCE as POD
from kapi.resources.definition import Resource
from kapi.resources.resource.deviceclasses import RESOURCE as DEVICE_CLASS
from kapi.resources.resource.resourceclaims import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from kapi.resources.resource.resourceslices import RESOURCE as SLICE
from tests.resources.strategy_kit import CTX

DEVICE: Object = {"name": "d"}
CLAIM: Object = {"name": "r", "exactly": {"deviceClassName": "c"}}


def slice_with(**device: Any) -> Object:
    return {"spec": {"devices": [{**DEVICE, **device}]}}


def request_with(**more: Any) -> Object:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", **more}}]}}


def claim(spec: Object) -> Object:
    return {"spec": spec}


def result(**more: Any) -> Object:
    return {"spec": {}, "status": {"allocation": {"devices": {"results": [{"device": "d", **more}]}}}}


def spread(**more: Any) -> Object:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **more}
    containers = [{"name": "c", "image": "i"}]
    return {"spec": {"containers": containers, "topologySpreadConstraints": [constraint]}}


def status(**more: Any) -> Object:
    return {"spec": {"containers": []}, "status": more}


def health(**more: Any) -> Object:
    resources = [{"resourceID": "r", "health": "Healthy", **more}]
    return status(
        initContainerStatuses=[{"name": "c", "allocatedResourcesStatus": [{"name": "n", "resources": resources}]}]
    )


#: gate, row, subresource, object with the fields, the same without
CASES: list[tuple[str, Resource, str, Object, Object]] = [
    ("DRADeviceTaints", SLICE, "", slice_with(taints=[{"key": "k", "effect": "NoExecute", "timeAdded": "t"}]), slice_with()),
    ("DRAPartitionableDevices", SLICE, "", slice_with(nodeName="n", consumesCounters=[{}], allNodes=False), slice_with()),
    ("DRAPartitionableDevices", SLICE, "", {"spec": {"sharedCounters": [{}], "perDeviceNodeSelection": True}}, {"spec": {}}),
    ("DRADeviceBindingConditions", SLICE, "", slice_with(bindingConditions=["a"], bindsToNode=True), slice_with()),
    ("DRAResourceClaimDeviceStatus", SLICE, "", slice_with(bindingFailureConditions=["a"]), slice_with()),
    ("DRAConsumableCapacity", SLICE, "", slice_with(allowMultipleAllocations=False), slice_with()),
    (
        "DRAConsumableCapacity", SLICE, "", slice_with(capacity={"m": {"value": "1", "requestPolicy": {}}}),
        slice_with(capacity={"m": {"value": "1"}}),
    ),
    (
        "DRAListTypeAttributes", SLICE, "", slice_with(attributes={"a": {"int": 1}, "b": {"ints": [1]}}),
        slice_with(attributes={"a": {"int": 1}, "b": {}}),
    ),
    ("DRAExtendedResource", DEVICE_CLASS, "", claim({"extendedResourceName": "example.com/gpu"}), claim({})),
    ("DRADeviceTaints", RESOURCE_CLAIM, "", claim(request_with(tolerations=[{"key": "k"}])), claim(request_with())),
    ("DRAConsumableCapacity", RESOURCE_CLAIM, "", claim(request_with(capacity={"requests": {}})), claim(request_with())),
    (
        "DRAConsumableCapacity", RESOURCE_CLAIM_TEMPLATE, "", claim({"spec": request_with(capacity={})}),
        claim({"spec": request_with()}),
    ),
    (
        "DRAPrioritizedList", RESOURCE_CLAIM, "",
        claim({"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "s"}]}]}}),
        claim({"devices": {"requests": [{"name": "r"}]}}),
    ),
    ("DRAConsumableCapacity", RESOURCE_CLAIM, "status", result(shareID="s", consumedCapacity={"m": "1"}), result()),
    ("DRADeviceBindingConditions", RESOURCE_CLAIM, "status", result(bindingConditions=["a"]), result()),
    ("DRAResourceClaimDeviceStatus", RESOURCE_CLAIM, "status", {**status(devices=[{}]), "spec": {}}, {**status(), "spec": {}}),
    ("MatchLabelKeysInPodTopologySpread", POD, "", spread(matchLabelKeys=["app"]), spread()),
    ("DRAExtendedResource", POD, "status", status(extendedResourceClaimStatus={}), status()),
    ("DeploymentReplicaSetTerminatingReplicas", DEPLOYMENT, "status", status(terminatingReplicas=1), status()),
    ("DeploymentReplicaSetTerminatingReplicas", REPLICA_SET, "status", status(terminatingReplicas=0), status()),
    (
        "CRDObservedGenerationTracking", DEFINITION, "status",
        status(observedGeneration=2, conditions=[{"type": "T", "observedGeneration": 2}]), status(conditions=[{"type": "T"}]),
    ),
]  # fmt: skip
IDS = [f"{gate}-{row.plural}-{number}" for number, (gate, row, *_) in enumerate(CASES)]


def prepared(row: Resource, subresource: str, gate: str, on: bool, given: Object, old: Object | None) -> Object:
    """What is stored of ``given``, without what is not in the case."""
    ctx = msgspec.structs.replace(CTX, features={gate: on, "DRAListTypeAttributes": on})
    strategy = row.strategy
    if subresource:
        found = row.subresource(subresource)
        assert found is not None and found.strategy is not None
        strategy = found.strategy
    obj, before = ({"metadata": {"name": "a"}, **tree.copy(each or {})} for each in (given, old))
    if old is None and not subresource:
        strategy.prepare_for_create(obj, ctx)
    else:
        strategy.prepare_for_update(obj, before, ctx)
    return {part: obj[part] for part in given}


@pytest.mark.parametrize(("gate", "row", "subresource", "full", "without"), CASES, ids=IDS)
def test_fields_of_a_gate_that_is_off_are_dropped(
    gate: str, row: Resource, subresource: str, full: Object, without: Object
) -> None:
    old = without if subresource else None
    assert prepared(row, subresource, gate, False, full, old) == prepared(row, subresource, gate, False, without, old)
    assert prepared(row, subresource, gate, True, full, old) != prepared(row, subresource, gate, True, without, old)


@pytest.mark.parametrize(("gate", "row", "subresource", "full", "without"), CASES, ids=IDS)
def test_fields_that_are_stored_stay(gate: str, row: Resource, subresource: str, full: Object, without: Object) -> None:
    assert prepared(row, subresource, gate, False, full, full) == prepared(row, subresource, gate, True, full, full)


@pytest.mark.parametrize(
    ("gate", "left"),
    [
        ("ResourceHealthStatus", status(initContainerStatuses=[{"name": "c"}])),
        ("ResourceHealthStatusMessage", health()),
    ],
)
def test_the_health_of_resources_is_dropped_even_if_it_is_stored(gate: str, left: Object) -> None:
    full = health(message="text")
    assert prepared(POD, "status", gate, False, full, full) == left
    assert prepared(POD, "status", gate, True, full, full) == full


def test_a_share_is_in_use_by_the_spec_of_its_claim() -> None:
    old = {**result(), "spec": request_with(capacity={"requests": {"m": "1"}})}
    new = {**result(shareID="s"), "spec": old["spec"]}
    assert prepared(RESOURCE_CLAIM, "status", "DRAConsumableCapacity", False, new, old) == new


RULES = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]


def restarting(part: str, **container: Any) -> Object:
    return {"spec": {part: [{"name": "c", **container}]}}


@pytest.mark.parametrize(
    ("part", "policy", "left"),
    [
        ("containers", "Always", {}),
        ("containers", "Never", {}),
        ("ephemeralContainers", "Always", {}),
        ("initContainers", "OnFailure", {}),
        ("initContainers", "Always", {"restartPolicy": "Always"}),
    ],
)
def test_restart_policies_of_containers_are_dropped_except_those_of_sidecars(
    part: str, policy: str, left: Object
) -> None:
    full = restarting(part, restartPolicy=policy, restartPolicyRules=RULES)
    assert prepared(POD, "", "ContainerRestartRules", False, full, None) == restarting(part, **left)
    assert prepared(POD, "", "ContainerRestartRules", True, full, None) == full


@pytest.mark.parametrize(
    ("old", "stays"),
    [
        (restarting("containers", restartPolicy="Never"), True),
        (restarting("initContainers", restartPolicy="Never"), True),
        (restarting("initContainers", restartPolicy="Always", restartPolicyRules=RULES), True),
        (restarting("initContainers", restartPolicy="Always"), False),
        (restarting("containers"), False),
    ],
)
def test_a_restart_policy_is_in_use_without_rules(old: Object, stays: bool) -> None:
    new = restarting("containers", restartPolicy="OnFailure", restartPolicyRules=RULES)
    left = prepared(POD, "", "ContainerRestartRules", False, new, old)
    assert left == (new if stays else restarting("containers"))


@pytest.mark.parametrize(
    ("old", "stays"),
    [
        ({}, False),
        ({"requests": {"cpu": "1"}}, True),
        ({"limits": {"cpu": "1"}}, True),
        ({"claims": [{"name": "c"}]}, False),
    ],
)
def test_resources_of_a_pod_are_in_use_by_requests_and_limits(old: Object, stays: bool) -> None:
    new: Object = {"spec": {"containers": [], "resources": {"requests": {"cpu": "2"}}}}
    left = prepared(POD, "", "PodLevelResources", False, new, {"spec": {"containers": [], "resources": old}})
    assert ("resources" in left["spec"]) == stays


@pytest.mark.parametrize(
    ("gate", "part", "container"),
    [
        ("ContainerRestartRules", "containers", {"restartPolicy": "Never"}),
        ("ContainerRestartRules", "initContainers", {"restartPolicy": "Never"}),
        (
            "RestartAllContainersOnContainerExits", "initContainers",
            {"restartPolicy": "Always", "restartPolicyRules": RULES},
        ),
    ],
)  # fmt: skip
def test_what_a_template_has_stays_valid_without_the_gate(gate: str, part: str, container: Object) -> None:
    ctx = msgspec.structs.replace(CTX, features={gate: False})
    containers: Object = {"containers": [{"name": "a", "image": "i"}]}
    containers.setdefault(part, []).append({"name": "b", "image": "i", **container})
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": containers}
    old: Object = {
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    DEPLOYMENT.strategy.default(old)
    new = tree.copy(old)
    DEPLOYMENT.strategy.prepare_for_update(new, old, ctx)
    assert DEPLOYMENT.strategy.validate_update(new, old, ctx) == []
    assert new["spec"] == old["spec"]
