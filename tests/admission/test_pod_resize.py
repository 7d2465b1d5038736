"""Updates of pods that their nodes cannot make, and of Jobs whose pods are scheduled as a gang."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.interface import UPDATE, Attributes
from kapi.admission.plugins.pod_groups import JobValidation
from kapi.admission.plugins.pod_resize import NodeDeclaredFeatureValidator, PodResizeValidator
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from tests.admission.fakes import attributes, finish, initializer, pod
from tests.admission.plugin_kit import admit, cluster, refusal


def node(system: str = "linux", **status: Any) -> Object:
    allocatable = {"cpu": "1", "memory": "1Gi"}
    return {
        "metadata": {"name": "node", "labels": {"kubernetes.io/os": system}},
        "status": {"allocatable": allocatable} | status,
    }


def plugins(given: Object | None = None) -> tuple[PodResizeValidator, NodeDeclaredFeatureValidator]:
    client = cluster()
    if given is not None:
        client.put("", "nodes", given)
    made = initializer(client)
    return PodResizeValidator(made), NodeDeclaredFeatureValidator(made)


def resized(subresource: str = "resize", quality: str = "Burstable", generation: int = 2, **spec: Any) -> Attributes:
    """An update of a pod on the node, which asked for 100m CPU."""
    old = pod(nodeName="node", containers=[{"name": "c", "resources": {"requests": {"cpu": "100m"}}}])
    old["metadata"]["generation"], old["status"] = 1, {"qosClass": quality}
    new = {**old, "metadata": {**old["metadata"], "generation": generation}, "spec": {**old["spec"], **spec}}
    return attributes(new, old, operation=UPDATE, subresource=subresource)


def asking(cpu: str, memory: str = "1Mi") -> list[Object]:
    return [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]


def test_a_resized_pod_fits_on_its_node() -> None:
    plugin, _ = plugins(node())
    admit(plugin, resized(containers=asking("1", "1Gi")))
    with pytest.raises(StatusError) as caught:
        finish(plugin.validate(resized(containers=asking("1500m", "2Gi"))))
    assert caught.value.message == (
        'pods "p" is forbidden: node didn\'t have enough allocatable resources: '
        "cpu, requested: 1500, allocatable: 1000; memory, requested: 2147483648, allocatable: 1073741824"
    )
    assert caught.value.code == 403
    assert (caught.value.details or {})["causes"] == [{"reason": "NodeCapacity"}]
    admit(plugin, resized(generation=1, containers=asking("9")))  # nothing of the spec has changed
    admit(plugin, resized(subresource="", containers=asking("9")))


def test_a_pod_is_resized_on_linux_only() -> None:
    plugin, _ = plugins(node("windows"))
    with pytest.raises(StatusError) as caught:
        finish(plugin.validate(resized(containers=asking("200m"))))
    assert 'pod resize is only supported on linux nodes, node "node" is "windows"' in caught.value.message
    assert (caught.value.details or {})["causes"] == [{"reason": "UnsupportedPlatform"}]
    assert "only supported on linux" in refusal(plugin, resized(containers=asking("9"))), "whatever it asks for"
    unlabelled = node()
    del unlabelled["metadata"]["labels"]
    admit(plugins(unlabelled)[0], resized(containers=asking("200m")))


def test_requests_are_compared_exactly() -> None:
    plugin, _ = plugins(node(allocatable={"cpu": "999500u", "memory": "1500m"}))
    admit(plugin, resized(containers=asking("999500u", "1500m")))
    said = "cpu, requested: 1000, allocatable: 1000; memory, requested: 2, allocatable: 2"
    assert said in refusal(plugin, resized(containers=asking("999501u", "1501m")))


def test_the_node_of_a_resized_pod_exists() -> None:
    for plugin in plugins():
        assert 'node "node" not found' in refusal(plugin, resized(resources={"requests": {"cpu": "200m"}}))
    pending = resized(containers=asking("9"))
    assert pending.obj is not None
    del pending.obj["spec"]["nodeName"]
    admit(plugins()[0], pending)


@pytest.mark.parametrize(
    ("quality", "spec", "feature"),
    [
        ("Guaranteed", {"containers": asking("200m")}, ""),  # needed a feature before 1.36
        ("Burstable", {"containers": asking("200m")}, ""),
        ("Burstable", {"resources": {"requests": {"cpu": "1"}}}, "InPlacePodLevelResourcesVerticalScaling"),
        ("Burstable", {"metadata": {}}, ""),
    ],
)
def test_a_node_declares_what_an_update_needs(quality: str, spec: Any, feature: str) -> None:
    _, plugin = plugins(node())
    if feature:
        said = f'pod update requires features {feature} which are not available on node "node"'
        assert said in refusal(plugin, resized(quality=quality, **spec))
        _, plugin = plugins(node(declaredFeatures=[feature]))
    admit(plugin, resized(quality=quality, **spec))


def test_resources_of_init_containers_need_a_feature_unless_they_are_sidecars() -> None:
    _, plugin = plugins(node())
    request = resized(initContainers=asking("2"))
    assert request.old is not None
    request.old["spec"]["initContainers"] = asking("1")
    assert "InPlacePodVerticalScalingInitContainers" in refusal(plugin, request)
    request.old["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    admit(plugin, request)


@pytest.mark.parametrize("named", [True, False])
def test_the_parallelism_of_a_gang_stays(named: bool) -> None:
    client = cluster()
    owner = {"kind": "Job", "name": "j", "uid": "u", "controller": True}
    group = {
        "metadata": {"name": "g", "namespace": "n", "ownerReferences": [] if named else [owner]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    client.put("scheduling.k8s.io", "podgroups", group)
    plugin = JobValidation(initializer(client))

    def scaled(number: int) -> Attributes:
        template = {"spec": {"schedulingGroup": {"podGroupName": "g"}} if named else {}}
        old: Object = {"metadata": {"name": "j", "uid": "u"}, "spec": {"parallelism": 2, "template": template}}
        new = {**old, "spec": {**old["spec"], "parallelism": number}}
        return attributes(new, old, operation=UPDATE, resource="jobs", group="batch", kind="Job")

    said = 'cannot change parallelism for a Job referencing gang-scheduled PodGroup "g"'
    assert said in refusal(plugin, scaled(3))
    admit(plugin, scaled(2))
    group["spec"]["schedulingPolicy"] = {"basic": {}}
    client.put("scheduling.k8s.io", "podgroups", group)
    admit(plugin, scaled(3))
