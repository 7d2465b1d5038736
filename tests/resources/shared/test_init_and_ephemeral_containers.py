"""What the containers beside the regular ones may say: those that run first, and those that are added for debugging."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kapi.machinery.tree import Object
from kapi.resources.core.pods import RESOURCE
from tests.resources.strategy_kit import CTX, changes, made, problems, short

REGULAR = {"name": "c", "image": "i:1"}
INITIAL = {"name": "f", "image": "i:1"}
PROBE = {"tcpSocket": {"port": 1}}
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
NOT_INITIAL = "Forbidden: may not be set for init containers without restartPolicy=Always"


def of_initial(*containers: Object) -> list[str]:
    found = problems(
        RESOURCE, spec={"containers": [REGULAR], "initContainers": [{**INITIAL, **each} for each in containers]}
    )
    return [text.removeprefix("spec.initContainers") for text in found]


@pytest.mark.parametrize(
    ("container", "texts"),
    [
        ({}, []),
        ({"image": ""}, [".image: Required value"]),
        ({"name": ""}, [".name: Required value"]),
        ({"name": "c"}, ['.name: Duplicate value: "c"']),
        ({"livenessProbe": PROBE}, [f".livenessProbe: {NOT_INITIAL}"]),
        ({"readinessProbe": PROBE}, [f".readinessProbe: {NOT_INITIAL}"]),
        ({"startupProbe": PROBE}, [f".startupProbe: {NOT_INITIAL}"]),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}, [f".lifecycle: {NOT_INITIAL}"]),
        ({"restartPolicy": "Always", "livenessProbe": PROBE, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}, []),
        ({"restartPolicy": "Always", "livenessProbe": {}}, [".livenessProbe: Required value: must specify a handler type"]),
        ({"restartPolicy": "Always", "lifecycle": {"preStop": {}}},
         [".lifecycle.preStop: Required value: must specify a handler type"]),
        ({"restartPolicy": "X"}, ['.restartPolicy: Unsupported value: "X": supported values: "Always", "Never", "OnFailure"']),
        ({"restartPolicy": "Never", "restartPolicyRules": [RULE]}, []),
        ({"restartPolicyRules": [RULE, {"action": "X"}]},
         [".restartPolicy: Required value: must specify restartPolicy when restart rules are used"]),
        ({"ports": [{"containerPort": 1, "hostPort": 7}, {"containerPort": 2, "hostPort": 8}]}, []),
        ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
         [".resizePolicy[0].restartPolicy: Invalid value: \"RestartContainer\": "
          "must not be set to 'RestartContainer' for non-sidecar initContainers"]),
        ({"restartPolicy": "Always", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}, []),
    ],
)  # fmt: skip
def test_container_that_runs_first(container: Object, texts: list[str]) -> None:
    assert of_initial(container) == [f"[0]{text}" for text in texts]


@pytest.mark.parametrize(
    ("all_containers", "texts"),
    [
        (True, []),
        (False, ["restartPolicyRules: Forbidden: restartPolicyRules are not allowed for init containers with restart policy "
                 "Always"]),
    ],
)  # fmt: skip
def test_rules_for_a_sidecar(all_containers: bool, texts: list[str]) -> None:
    ctx = replace(CTX, features={"ContainerRestartRules": True, "RestartAllContainersOnContainerExits": all_containers})
    sidecar = {**INITIAL, "restartPolicy": "Always", "restartPolicyRules": [RULE]}
    found = problems(RESOURCE, ctx, spec={"containers": [REGULAR], "initContainers": [sidecar]})
    assert short(found, "spec.initContainers[0].") == texts


def test_containers_that_run_first_have_different_names() -> None:
    assert of_initial({"name": "f"}, {"name": "g"}) == []
    assert of_initial({"name": "f"}, {"name": "f"}) == ['[1].name: Duplicate value: "f"']


def test_host_ports_of_a_container_that_runs_first() -> None:
    """Upstream looks at each alone, and gives the place in a list of one."""
    ports = {"ports": [{"containerPort": 1, "hostPort": 7}]}
    assert of_initial({"name": "f", **ports}, {"name": "g", **ports}) == []
    assert of_initial({}, {"name": "g", "ports": ports["ports"] * 2}) == [
        '[0].ports[1].hostPort: Duplicate value: "TCP//7"'
    ]


def of_ephemeral(**parts: Any) -> list[str]:
    """What an update is refused for that adds such a container to a running pod."""
    volumes = [{"name": "v", "emptyDir": {}}]
    old = made(RESOURCE, spec={"containers": [REGULAR], "initContainers": [INITIAL], "volumes": volumes})
    container = {
        "name": "d", "image": "i:1", "imagePullPolicy": "Always", "terminationMessagePolicy": "File", **parts,
    }  # fmt: skip
    found = changes(
        RESOURCE, old, subresource="ephemeralcontainers", spec={**old["spec"], "ephemeralContainers": [container]}
    )
    return [text.removeprefix("spec.ephemeralContainers[0]") for text in found]


NOT_EPHEMERAL = "Forbidden: cannot be set for an Ephemeral Container"


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({}, []),
        ({"targetContainerName": "c"}, []),
        ({"targetContainerName": "f"}, []),
        ({"resources": {}}, []),
        ({"name": ""}, [".name: Required value"]),
        ({"name": "c"}, ['.name: Duplicate value: "c"']),
        ({"name": "f"}, ['.name: Duplicate value: "f"']),
        ({"image": ""}, [".image: Required value"]),
        ({"image": " i"}, ['.image: Invalid value: " i": must not have leading or trailing whitespace']),
        ({"targetContainerName": "x"}, ['.targetContainerName: Not found: "x"']),
        ({"ports": [{"containerPort": 1, "protocol": "TCP"}]}, [f".ports: {NOT_EPHEMERAL}"]),
        ({"resources": {"limits": {"cpu": "1"}}}, [f".resources: {NOT_EPHEMERAL}"]),
        ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}, [f".resizePolicy: {NOT_EPHEMERAL}"]),
        ({"restartPolicy": "Always"}, [f".restartPolicy: {NOT_EPHEMERAL}"]),
        ({"livenessProbe": PROBE}, [f".livenessProbe: {NOT_EPHEMERAL}"]),
        ({"readinessProbe": PROBE}, [f".readinessProbe: {NOT_EPHEMERAL}"]),
        ({"startupProbe": PROBE}, [f".startupProbe: {NOT_EPHEMERAL}"]),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}, [f".lifecycle: {NOT_EPHEMERAL}"]),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, []),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}]},
         [f".volumeMounts[0].subPath: {NOT_EPHEMERAL}"]),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "a"}]},
         [f".volumeMounts[0].subPathExpr: {NOT_EPHEMERAL}"]),
    ],
)  # fmt: skip
def test_container_for_debugging(parts: Object, texts: list[str]) -> None:
    assert of_ephemeral(**parts) == texts
