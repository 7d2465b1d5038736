"""What objects count for in a quota."""

from __future__ import annotations

import pytest

from kapi.admission.interface import CREATE, DELETE, UPDATE
from kapi.admission.quota.evaluators import evaluator_of
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from tests.admission.fakes import attributes, pod

NOW = 1_700_000_000.0


def usage(resource: str, obj: Object, group: str = "") -> dict[str, str]:
    return evaluator_of(GroupResource(group, resource)).usage(obj, NOW)


def container(name: str = "c", limits: Object | None = None, **requests: str) -> Object:
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}}


def test_a_pod_counts_for_the_most_it_needs_at_once() -> None:
    obj = pod(
        containers=[container(cpu="100m"), container("d", cpu="200m", memory="1Gi")],
        initContainers=[
            {**container("side", cpu="50m"), "restartPolicy": "Always"},
            container("big", cpu="1"),
        ],
        overhead={"cpu": "10m", "memory": "1Mi"},
    )
    found = usage("pods", obj)
    assert (found["requests.cpu"], found["cpu"], found["pods"], found["count/pods"]) == ("1060m", "1060m", "1", "1")
    assert found["requests.memory"] == "1025Mi"


def test_overhead_comes_on_top_of_limits_that_there_are() -> None:
    obj = pod(containers=[container(limits={"cpu": "1", "memory": "0"})], overhead={"cpu": "1", "memory": "1Mi"})
    found = usage("pods", obj)
    assert (found["limits.cpu"], found["limits.memory"], found["requests.memory"]) == ("2", "0", "1Mi")


def test_values_of_the_whole_pod_win() -> None:
    obj = pod(containers=[container(cpu="100m", memory="1Mi")], resources={"requests": {"cpu": "2"}})
    found = usage("pods", obj)
    assert (found["requests.cpu"], found["requests.memory"]) == ("2", "1Mi")


def test_pods_that_ended_or_hang_count_as_objects_only() -> None:
    ended = {**pod(), "status": {"phase": "Succeeded"}}
    hanging = pod()
    hanging["metadata"] |= {"deletionTimestamp": "2023-11-14T22:00:00Z", "deletionGracePeriodSeconds": 30}
    for obj in (ended, hanging):
        assert usage("pods", obj) == {"count/pods": "1"}


@pytest.mark.parametrize(("reason", "counts"), [("Deferred", "3"), ("Infeasible", "2")])
def test_a_pod_that_is_resized_counts_for_what_it_has_and_what_it_will_have(reason: str, counts: str) -> None:
    obj = pod(containers=[container(cpu="3")])
    has = {"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}
    condition = {"type": "PodResizePending", "reason": reason}
    obj["status"] = {"containerStatuses": [has], "conditions": [condition]}
    assert usage("pods", obj)["requests.cpu"] == counts
    obj["spec"]["containers"] = [container(cpu="1")]
    assert usage("pods", obj)["requests.cpu"] == "2"


def test_other_resources_of_pods() -> None:
    names = {"hugepages-2Mi": "4Mi", "example.com/gpu": "2", "deviceclass.resource.kubernetes.io/gpu": "1"}
    found = usage("pods", pod(containers=[container(**names)]))
    assert found["hugepages-2Mi"] == found["requests.hugepages-2Mi"] == "4Mi"
    assert found["requests.example.com/gpu"] == "2"
    assert found["requests.deviceclass.resource.kubernetes.io/gpu"] == "1"


@pytest.mark.parametrize(
    ("spec", "ports", "balancers"),
    [
        ({"type": "ClusterIP", "ports": [{}]}, "0", "0"),
        ({"type": "NodePort", "ports": [{}, {}]}, "2", "0"),
        ({"type": "LoadBalancer", "ports": [{}, {}]}, "2", "1"),
        ({"type": "LoadBalancer", "ports": [{}, {"nodePort": 3}], "allocateLoadBalancerNodePorts": False}, "1", "1"),
    ],
)
def test_services(spec: Object, ports: str, balancers: str) -> None:
    found = usage("services", {"metadata": {"name": "s"}, "spec": spec})
    assert (found["services.nodeports"], found["services.loadbalancers"]) == (ports, balancers)


def test_claims_count_in_all_and_for_their_class_in_whole_bytes() -> None:
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "1500m"}}}
    claim = {"metadata": {"name": "c"}, "spec": spec, "status": {"allocatedResources": {"storage": "5"}}}
    assert usage("persistentvolumeclaims", claim) == {
        "persistentvolumeclaims": "1",
        "count/persistentvolumeclaims": "1",
        "requests.storage": "5",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "5",
    }


def test_devices_count_for_the_worst_case() -> None:
    requests = [
        {"exactly": {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 2}},
        {"exactly": {"deviceClassName": "b", "allocationMode": "All"}},
        {"firstAvailable": [{"deviceClassName": "a", "count": 1}, {"deviceClassName": "a", "count": 4}]},
    ]
    found = usage(
        "resourceclaims", {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}, "resource.k8s.io"
    )
    end = ".deviceclass.resource.k8s.io/devices"
    assert found == {"count/resourceclaims.resource.k8s.io": "1", f"a{end}": "6", f"b{end}": "32"}


def test_other_objects_count_as_objects() -> None:
    assert usage("secrets", {}) == {"count/secrets": "1", "secrets": "1"}
    assert usage("deployments", {}, "apps") == {"count/deployments.apps": "1"}


ENDING = {"activeDeadlineSeconds": 5}


@pytest.mark.parametrize(
    ("resource", "operation", "subresource", "before", "after", "counts"),
    [
        ("pods", CREATE, "", None, {}, True),
        ("pods", UPDATE, "", {}, {}, False),
        ("pods", UPDATE, "", {}, ENDING, True),
        ("pods", UPDATE, "", ENDING, {}, True),
        ("pods", UPDATE, "", ENDING, ENDING, False),
        ("pods", UPDATE, "status", {}, ENDING, False),
        ("pods", CREATE, "binding", None, ENDING, False),
        ("pods", UPDATE, "resize", {}, {}, True),
        ("pods", CREATE, "resize", None, {}, False),
        ("services", CREATE, "", None, {}, True),
        ("services", UPDATE, "", {}, {}, True),
        ("services", DELETE, "", {}, None, False),
        ("services", UPDATE, "status", {}, {}, False),
    ],
)
def test_which_requests_are_counted(
    resource: str, operation: str, subresource: str, before: Object | None, after: Object | None, counts: bool
) -> None:
    old, new = (None if spec is None else {"metadata": {"name": "p"}, "spec": spec} for spec in (before, after))
    request = attributes(new, old, operation=operation, subresource=subresource, resource=resource)
    assert evaluator_of(GroupResource("", resource)).handles(request) is counts
