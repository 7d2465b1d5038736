"""The total requests and limits of pods: containers one after another and at once, sidecars, pod-level values, resizes."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.pod_resources import add_all, of_containers, pod_resources, raise_to


def one(cpu: str = "", name: str = "c", always: bool = False, **more: str) -> dict[str, Any]:
    requests = {**({"cpu": cpu} if cpu else {}), **more}
    return {"name": name, "resources": {"requests": requests}, **({"restartPolicy": "Always"} if always else {})}


@pytest.mark.parametrize(
    ("containers", "starting", "total"),
    [
        ([], [], {}), ([{"name": "c"}], [], {}), ([one("1"), one("500m", memory="1Gi")], [], {"cpu": "1500m", "memory": "1Gi"}),
        ([one("1")], [one("3"), one("2")], {"cpu": "3"}), ([one("1"), one("3")], [one("3")], {"cpu": "4"}),
        ([one("1")], [one("1", always=True)], {"cpu": "2"}),
        ([one("1")], [one("1", always=True), one("3")], {"cpu": "4"}),  # the sidecar runs beside the init container
        ([one("1")], [one("3"), one("1", always=True)], {"cpu": "3"}),  # and not before it has started
        ([one("1")], [one("1", always=True), one("2", always=True), one("1")], {"cpu": "4"}),
        ([], [one("", memory="2"), one("1")], {"memory": "2", "cpu": "1"}),
    ],
)  # fmt: skip
def test_what_containers_need_at_once(containers: list[Any], starting: list[Any], total: dict[str, str]) -> None:
    spec = {"containers": containers, "initContainers": starting}
    assert of_containers(spec, "requests") == pod_resources(spec, "requests") == total
    assert of_containers(spec, "limits") == {}


def test_values_of_the_pod_replace_those_of_its_containers() -> None:
    own = {"cpu": "5", "memory": "1", "hugepages-2Mi": "2Mi", "ephemeral-storage": "9"}
    spec = {"containers": [one("1", memory="2")], "resources": {"requests": own}}
    assert pod_resources(spec, "requests") == {"cpu": "5", "memory": "1", "hugepages-2Mi": "2Mi"}
    assert pod_resources(spec, "requests", huge_pages=False) == {"cpu": "5", "memory": "1"}


def test_the_overhead_of_a_runtime() -> None:
    spec = {"containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "0"}}}],
            "overhead": {"cpu": "100m", "memory": "1Mi"}}  # fmt: skip
    assert pod_resources(spec, "requests") == {"cpu": "1"}
    assert pod_resources(spec, "requests", overhead=True) == {"cpu": "1100m", "memory": "1Mi"}
    assert pod_resources(spec, "limits", overhead=True) == {
        "cpu": "2100m",
        "memory": "0",
    }  # only where there is a limit


def running(allocated: str, actual: str, name: str = "c") -> dict[str, Any]:
    return {
        "name": name,
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": actual}, "limits": {"cpu": "9"}},
    }


@pytest.mark.parametrize(
    ("status", "total"),
    [
        ({}, "2"), ({"containerStatuses": [running("1", "1")]}, "2"), ({"containerStatuses": [running("3", "1")]}, "3"),
        ({"containerStatuses": [running("1", "3")]}, "3"), ({"containerStatuses": [running("3", "1", "other")]}, "2"),
        ({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "7"}}]}, "2"),
        ({"containerStatuses": [running("1", "1")], "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}, "1"),
        ({"containerStatuses": [running("1", "1")], "conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}, "2"),
        ({"containerStatuses": [running("1", "1")], "conditions": [{"type": "Ready", "reason": "Infeasible"}]}, "2"),
    ],
)  # fmt: skip
def test_the_larger_of_what_is_asked_for_and_what_a_running_container_has(status: dict[str, Any], total: str) -> None:
    assert pod_resources({"containers": [one("2")]}, "requests", status=status) == {"cpu": total}


def test_sidecars_that_run_and_limits() -> None:
    spec = {"containers": [], "initContainers": [one("1", "s", always=True)]}
    status = {"initContainerStatuses": [running("3", "2", "s")]}
    assert pod_resources(spec, "requests", status=status) == {"cpu": "3"}
    assert pod_resources(spec, "limits", status=status) == {"cpu": "9"}


@pytest.mark.parametrize(
    ("total", "more", "raised", "added"),
    [
        ({}, {"a": "1"}, {"a": "1"}, {"a": "1"}), ({"a": "1"}, None, {"a": "1"}, {"a": "1"}),
        ({"a": "1k"}, {"a": "1000"}, {"a": "1k"}, {"a": "2k"}), ({"a": "1000"}, {"a": "1k"}, {"a": "1000"}, {"a": "2k"}),
        ({"a": "1"}, {"a": "2", "b": "0"}, {"a": "2", "b": "0"}, {"a": "3", "b": "0"}),
        ({"a": "2"}, {"a": "1"}, {"a": "2"}, {"a": "3"}), ({"a": "1Ki"}, {"a": "1024"}, {"a": "1Ki"}, {"a": "2Ki"}),
    ],
)  # fmt: skip
def test_amounts_are_raised_and_added(total: Any, more: Any, raised: Any, added: Any) -> None:
    one, other = dict(total), dict(total)
    raise_to(one, more)
    add_all(other, more)
    assert (one, other) == (raised, added)
