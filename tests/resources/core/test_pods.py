"""Pods: what is filled in, what is refused, what may change, how they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.core.pods import RESOURCE
from kapi.resources.definition import Strategy, StrategyContext
from kapi.resources.shared.compute import qos_class

CTX = StrategyContext("n", "p", now="2024-01-01T00:00:00Z")
STRATEGY = RESOURCE.strategy


def strategy_of(name: str) -> Strategy:
    sub = RESOURCE.subresource(name)
    assert sub is not None and sub.strategy is not None
    return sub.strategy


def pod(spec: Object | None = None, container: Object | None = None, **metadata: Any) -> Object:
    made: Object = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1", **metadata},
        "spec": {"containers": [{"name": "c", "image": "i:1", **(container or {})}], **(spec or {})},
    }
    STRATEGY.default(made)
    STRATEGY.prepare_for_create(made, CTX)
    return made


def problems(obj: Object) -> list[str]:
    return [str(error) for error in STRATEGY.validate(obj, CTX)]


def after(old: Object, change: Callable[[Object], object], strategy: Strategy = STRATEGY) -> tuple[Object, list[str]]:
    new = tree.copy(old)
    change(new)
    strategy.default(new)
    strategy.prepare_for_update(new, old, CTX)
    return new, [str(error) for error in strategy.validate_update(new, old, CTX)]


def test_defaults() -> None:
    made = pod()
    assert made["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1


def test_a_token_belongs_to_an_account() -> None:
    token = {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}}
    spec: Object = {"volumes": [{"name": "v", "projected": {"sources": [token]}}]}
    assert problems(pod({**spec, "serviceAccountName": "a"})) == []
    assert problems(pod(spec)) == [
        "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
        "serviceAccountName is not set"
    ]


def test_a_pod_with_gates_is_on_no_node() -> None:
    spec: Object = {"schedulingGates": [{"name": "g"}]}
    assert problems(pod(spec)) == problems(pod({"nodeName": "n"})) == []
    assert problems(pod({**spec, "nodeName": "n"})) == [
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    ]


@pytest.mark.parametrize("subresource", ["", "status", "ephemeralcontainers", "resize"])
def test_the_name_of_a_pod_stays(subresource: str) -> None:
    strategy = strategy_of(subresource) if subresource else STRATEGY
    _, found = after(pod(), lambda obj: obj["metadata"].update(name="q"), strategy)
    assert found == ['metadata.name: Invalid value: "q": field is immutable']


def test_limits_stand_in_for_requests() -> None:
    made = pod(container={"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"]["qosClass"] == "Guaranteed"


def test_host_ports_on_the_host_network() -> None:
    made = pod({"hostNetwork": True}, {"ports": [{"containerPort": 80}]})
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_gated_pods_say_so() -> None:
    assert pod({"schedulingGates": [{"name": "g"}]})["status"]["conditions"][0]["reason"] == "SchedulingGated"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"restartPolicy": "Sometimes"}, 'spec.restartPolicy: Unsupported value: "Sometimes"'),
        ({"dnsPolicy": "Any"}, 'spec.dnsPolicy: Unsupported value: "Any"'),
        ({"nodeSelector": {"a b": "c"}}, 'spec.nodeSelector: Invalid value: "a b"'),
        ({"hostname": "A_"}, 'spec.hostname: Invalid value: "A_"'),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: Invalid value: 0"),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, 'spec.volumes[1].name: Duplicate value: "v"'),
        ({"tolerations": [{"operator": "Equal", "value": "v"}]}, "spec.tolerations[0].operator: Invalid value"),
        ({"ephemeralContainers": [{"name": "e", "image": "i"}]}, "spec.ephemeralContainers: Forbidden: cannot be set"),
        ({"priorityClassName": "A_"}, 'spec.priorityClassName: Invalid value: "A_"'),
    ],
)
def test_specs_that_are_refused(spec: Object, text: str) -> None:
    lines = problems(pod(spec))
    assert any(line.startswith(text) for line in lines), lines


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"name": ""}, "name: Required value"),
        ({"name": "A"}, 'name: Invalid value: "A"'),
        ({"image": ""}, "image: Required value"),
        ({"image": " i"}, 'image: Invalid value: " i": must not have leading or trailing whitespace'),
        ({"imagePullPolicy": "Maybe"}, 'imagePullPolicy: Unsupported value: "Maybe"'),
        ({"ports": [{"containerPort": 0}]}, "ports[0].containerPort: Required value"),
        ({"ports": [{"containerPort": 70000}]}, "ports[0].containerPort: Invalid value: 70000"),
        ({"env": [{"name": ""}]}, "env[0].name: Required value"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, 'volumeMounts[0].name: Not found: "v"'),
        ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}, 'resources.requests: Invalid value: "2"'),
        ({"resources": {"requests": {"cpu": "-1"}}}, 'resources.requests[cpu]: Invalid value: "-1"'),
        ({"livenessProbe": {}}, "livenessProbe: Required value: must specify a handler type"),
        ({"securityContext": {"runAsUser": -1}}, "securityContext.runAsUser: Invalid value: -1"),
    ],
)
def test_containers_that_are_refused(container: Object, text: str) -> None:
    lines = problems(pod(container=container))
    assert any(line.startswith("spec.containers[0]." + text) for line in lines), lines


def test_only_images_and_little_else_may_change() -> None:
    old = pod()
    new, lines = after(old, lambda p: p["spec"]["containers"][0].update(image="i:2"))
    assert (lines, new["metadata"]["generation"]) == ([], 2)
    _, lines = after(old, lambda p: p["spec"]["containers"][0].update(command=["sh"]))
    assert len(lines) == 1 and lines[0].startswith("spec: Forbidden: pod updates may not change fields other than")
    _, lines = after(old, lambda p: p["spec"]["containers"].append({"name": "d", "image": "i"}))
    assert lines == ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    _, lines = after(old, lambda p: p["spec"].update(tolerations=[{"key": "k", "operator": "Exists"}]))
    assert lines == []


def test_a_pod_keeps_its_status_on_update_and_its_spec_on_a_status_update() -> None:
    old = pod()
    new, _ = after(old, lambda p: p.update(status={"phase": "Running"}))
    assert new["status"] == old["status"]
    new, lines = after(old, lambda p: (p.update(status={"phase": "Running"}), p["spec"].clear()), strategy_of("status"))
    assert (lines, new["spec"], new["status"]["phase"]) == ([], old["spec"], "Running")


def test_resize_changes_resources_alone() -> None:
    old = pod(container={"resources": {"requests": {"cpu": "1"}}})
    resize = strategy_of("resize")

    def larger(p: Object) -> None:
        p["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
        p["spec"]["containers"][0]["image"] = "other"

    new, lines = after(old, larger, resize)
    assert (lines, new["spec"]["containers"][0]["image"]) == ([], "i:1")
    assert new["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}

    def guaranteed(p: Object) -> None:
        both = {"cpu": "1", "memory": "1Gi"}
        p["spec"]["containers"][0]["resources"] = {"requests": both, "limits": both}

    _, lines = after(old, guaranteed, resize)
    assert any("Pod QOS Class may not change as a result of resizing" in line for line in lines)


def test_ephemeral_containers_are_added_only() -> None:
    old = pod()
    extra = {"name": "debug", "image": "b", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
    strategy = strategy_of("ephemeralcontainers")
    new, lines = after(old, lambda p: p["spec"].update(ephemeralContainers=[extra]), strategy)
    assert lines == []
    _, lines = after(new, lambda p: p["spec"].pop("ephemeralContainers"), strategy)
    assert len(lines) == 1 and "existing ephemeral containers" in lines[0]


@pytest.mark.parametrize(
    ("spec", "status", "options", "seconds"),
    [
        ({"nodeName": "a"}, {}, {}, 30),
        ({"nodeName": "a", "terminationGracePeriodSeconds": 5}, {}, {}, 5),
        ({"nodeName": "a"}, {}, {"gracePeriodSeconds": 2}, 2),
        ({"nodeName": "a"}, {}, {"gracePeriodSeconds": -1}, 1),
        ({}, {}, {}, 0),
        ({"nodeName": "a"}, {"phase": "Succeeded"}, {}, 0),
        ({"nodeName": "a"}, {"phase": "Failed"}, {"gracePeriodSeconds": 9}, 0),
    ],
)
def test_how_long_a_pod_may_stay(spec: Object, status: Object, options: Object, seconds: int) -> None:
    made = pod(spec)
    made["status"] |= status
    assert STRATEGY.graceful_delete(made, options, CTX) == seconds


def quality(*resources: Object) -> str:
    return qos_class({"containers": [{"name": "c", "resources": amounts} for amounts in resources]})


def test_quality_of_service() -> None:
    full = {"cpu": "1", "memory": "1Gi"}
    assert quality({}) == "BestEffort"
    assert quality({"limits": full, "requests": full}) == "Guaranteed"
    assert quality({"limits": full, "requests": full}, {}) == "Burstable"
    assert quality({"requests": {"cpu": "1"}}) == "Burstable"
    assert quality({"limits": full, "requests": full | {"cpu": "500m"}}) == "Burstable"
    assert quality({"requests": {"cpu": "0"}}) == "BestEffort"


def cells(obj: Object) -> Object:
    assert RESOURCE.table is not None
    names = [column.name for column in RESOURCE.table.columns]
    return dict(zip(names, RESOURCE.table.cells(obj, 1_704_067_260.0), strict=True))


def test_rows() -> None:
    made = pod({"nodeName": "node"}, creationTimestamp="2024-01-01T00:00:00Z")
    made["status"] |= {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.1"}],
        "containerStatuses": [{"name": "c", "ready": True, "restartCount": 2, "state": {"running": {}}}],
    }
    row = cells(made)
    assert (row["Ready"], row["Status"], row["Restarts"], row["Age"]) == ("1/1", "Running", "2", "60s")
    assert (row["IP"], row["Node"]) == ("10.0.0.1", "node")
    made["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:30Z"
    assert cells(made)["Status"] == "Terminating"


def test_a_waiting_container_tells_why() -> None:
    made = pod()
    waiting = {"name": "c", "ready": False, "restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    made["status"]["containerStatuses"] = [waiting]
    assert (cells(made)["Ready"], cells(made)["Status"]) == ("0/1", "CrashLoopBackOff")


@pytest.mark.parametrize(
    ("field", "spec", "status", "value"),
    [
        ("spec.nodeName", {"nodeName": "n"}, {}, "n"), ("spec.host", {"nodeName": "n"}, {}, "n"), ("spec.nodeName", {}, {}, ""),
        ("spec.restartPolicy", {"restartPolicy": "Never"}, {}, "Never"),
        ("spec.schedulerName", {"schedulerName": "s"}, {}, "s"),
        ("spec.serviceAccountName", {"serviceAccountName": "a"}, {}, "a"),
        ("spec.hostNetwork", {"hostNetwork": True}, {}, "true"), ("spec.hostNetwork", {"hostNetwork": False}, {}, "false"),
        ("spec.hostNetwork", {}, {}, "false"), ("status.phase", {}, {"phase": "Running"}, "Running"),
        ("status.podIP", {}, {"podIPs": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]}, "192.0.2.1"),
        ("status.podIP", {}, {"podIPs": []}, ""), ("status.podIPs", {}, {"podIPs": [{"ip": "192.0.2.1"}]}, ""),
        ("status.nominatedNodeName", {}, {"nominatedNodeName": "n"}, "n"),
    ],
)  # fmt: skip
def test_what_selectors_see(field: str, spec: Object, status: Object, value: str) -> None:
    assert RESOURCE.selectable_fields[field]({**pod(spec), "status": status}) == value
