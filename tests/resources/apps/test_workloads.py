"""Deployments, replica sets, stateful sets, daemon sets, replication controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kapi.machinery import tree
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.resources.apps import controllerrevisions, daemonsets, deployments, replicasets, statefulsets
from kapi.resources.core import replicationcontrollers
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared.replicas import number_of
from kapi.testing.memory_api import MemoryAPI, succeed

CTX = StrategyContext("n", "w", now="2024-01-01T00:00:00Z")
DAEMONS, SETS, DEPLOYED = daemonsets.RESOURCE, statefulsets.RESOURCE, deployments.RESOURCE
LABELED = [deployments.RESOURCE, replicasets.RESOURCE, statefulsets.RESOURCE, daemonsets.RESOURCE]


def made(row: Resource, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector: Object = {"a": "b"} if row is replicationcontrollers.RESOURCE else {"matchLabels": {"a": "b"}}
    obj: Object = {
        "metadata": {"name": "w", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"template": template, "selector": selector, **spec},
    }
    row.strategy.default(obj)
    row.strategy.prepare_for_create(obj, CTX)
    return obj


def problems(row: Resource, **spec: Any) -> list[str]:
    return [str(error) for error in row.strategy.validate(made(row, **spec), CTX)]


def after(row: Resource, old: Object, change: Callable[[Object], object]) -> tuple[Object, list[str]]:
    new = tree.copy(old)
    change(new)
    row.strategy.prepare_for_update(new, old, CTX)
    return new, [str(error) for error in row.strategy.validate_update(new, old, CTX)]


def test_defaults_of_a_deployment() -> None:
    spec = made(deployments.RESOURCE)["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}


def test_defaults_of_the_others() -> None:
    spec = made(statefulsets.RESOURCE)["spec"]
    assert (spec["podManagementPolicy"], spec["replicas"]) == ("OrderedReady", 1)
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    assert made(daemonsets.RESOURCE)["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    controller = made(replicationcontrollers.RESOURCE, selector=None)
    assert controller["spec"]["selector"] == {"a": "b"}


@pytest.mark.parametrize("row", LABELED, ids=lambda row: row.plural)
def test_selectors_fit_templates_and_stay(row: Resource) -> None:
    assert problems(row) == []
    lines = problems(row, selector={"matchLabels": {"x": "y"}})
    assert any("`selector` does not match template `labels`" in line for line in lines)
    assert any(line.startswith("spec.selector: ") for line in problems(row, selector={}))
    other = {"matchLabels": {"x": "y"}}

    def move(obj: Object) -> None:
        obj["spec"]["selector"] = other
        obj["spec"]["template"]["metadata"]["labels"] = {"x": "y"}

    _, lines = after(row, made(row), move)
    assert any("immutable" in line or "updates to statefulset spec" in line for line in lines), lines


@pytest.mark.parametrize("row", [*LABELED[:3], replicationcontrollers.RESOURCE], ids=lambda row: row.plural)
def test_replicas_are_counted_from_zero(row: Resource) -> None:
    assert problems(row, replicas=0) == []
    assert problems(row, replicas=-1) == ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]


@pytest.mark.parametrize("row", [*LABELED, replicationcontrollers.RESOURCE], ids=lambda row: row.plural)
def test_generation_follows_the_spec_alone(row: Resource) -> None:
    old = made(row)
    assert old["metadata"]["generation"] == 1
    new, _ = after(row, old, lambda obj: obj["metadata"].update(labels={"l": "m"}))
    assert new["metadata"]["generation"] == 1
    new, _ = after(row, old, lambda obj: obj["metadata"].update(annotations={"l": "m"}))
    assert new["metadata"]["generation"] == (2 if row is deployments.RESOURCE else 1)
    new, lines = after(row, old, lambda obj: obj["spec"]["template"]["spec"].update(terminationGracePeriodSeconds=5))
    assert (new["metadata"]["generation"], lines) == (2, [])
    new, _ = after(row, old, lambda obj: obj.update(status={"replicas": 5}))
    assert new.get("status") == old.get("status")


@pytest.mark.parametrize("row", [*LABELED, replicationcontrollers.RESOURCE], ids=lambda row: row.plural)
def test_pods_of_workloads_restart_always(row: Resource) -> None:
    obj = made(row)
    obj["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    lines = [str(error) for error in row.strategy.validate(obj, CTX)]
    assert lines == ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']


def test_a_deployment_has_to_get_on() -> None:
    none = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}
    assert any("may not be 0 when `maxSurge` is 0" in line for line in problems(deployments.RESOURCE, strategy=none))
    both = {"type": "Recreate", "rollingUpdate": {"maxUnavailable": 1}}
    assert any(
        "may not be specified when strategy `type` is" in s for s in problems(deployments.RESOURCE, strategy=both)
    )
    late = "spec.progressDeadlineSeconds: Invalid value: {0}: must be greater than minReadySeconds"
    assert problems(deployments.RESOURCE, progressDeadlineSeconds=0) == [late.format(0)]
    assert problems(deployments.RESOURCE, progressDeadlineSeconds=5, minReadySeconds=5) == [late.format(5)]
    assert problems(deployments.RESOURCE, progressDeadlineSeconds=6, minReadySeconds=5) == []


@pytest.mark.parametrize(("users", "texts"), [
    (True, ["spec.template.spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"]), (False, []),
])  # fmt: skip
def test_devices_of_a_template_without_the_users_of_the_host_may_stay(users: bool, texts: list[str]) -> None:
    def template(host_users: bool) -> Object:
        devices = [{"name": "v", "devicePath": "/v"}]
        spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], "hostUsers": host_users,
                "containers": [{"name": "c", "image": "i", "volumeDevices": devices}]}  # fmt: skip
        return {"metadata": {"labels": {"a": "b"}}, "spec": spec}

    row = deployments.RESOURCE
    old = made(row, template=template(users))
    new = made(row, template=template(False))
    new["metadata"]["resourceVersion"] = "1"
    assert [str(error) for error in row.strategy.validate_update(new, old, CTX)] == texts


def test_a_stateful_set_keeps_most_of_its_spec() -> None:
    old = made(statefulsets.RESOURCE)
    _, lines = after(statefulsets.RESOURCE, old, lambda obj: obj["spec"].update(podManagementPolicy="Parallel"))
    assert len(lines) == 1 and lines[0].startswith("spec: Forbidden: updates to statefulset spec for fields other than")
    _, lines = after(statefulsets.RESOURCE, old, lambda obj: obj["spec"].update(replicas=7, minReadySeconds=1))
    assert lines == []


def test_a_daemon_set_counts_its_templates() -> None:
    row = daemonsets.RESOURCE
    old = made(row)
    key = "deprecated.daemonset.template.generation"
    assert old["metadata"]["annotations"][key] == "1"
    new, _ = after(row, old, lambda obj: obj["spec"]["template"]["metadata"]["labels"].update(x="y"))
    assert new["metadata"]["annotations"][key] == "2"
    new, _ = after(row, old, lambda obj: obj["spec"].update(minReadySeconds=3))
    assert new["metadata"]["annotations"][key] == "1"


def test_a_status_without_the_template_generation_keeps_it() -> None:
    api = succeed(MemoryAPI.started())
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/daemonsets"
    assert api.ask("POST", path, {"metadata": {"name": "d"}, "spec": spec}).code == 201
    answer = api.ask("PUT", f"{path}/d/status", {"metadata": {"name": "d"}, "spec": spec})
    assert (answer.code, answer.json["metadata"]["annotations"]) == (200, {daemonsets.GENERATION: "1"})


def test_revisions_keep_their_data() -> None:
    row = controllerrevisions.RESOURCE
    old: Object = {
        "metadata": {"name": "w", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "data": {"a": 1},
        "revision": 1,
    }
    _, lines = after(row, old, lambda obj: obj.update(data={"a": 2}))
    assert len(lines) == 1 and lines[0].startswith("data: Invalid value") and lines[0].endswith("field is immutable")


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        ({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "collisionCount": 3}, []),
        ({"observedGeneration": -1}, ["observedGeneration: Invalid value: -1: must be greater than or equal to 0"]),
        ({"replicas": 1, "readyReplicas": 2}, ["readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
        ({"replicas": 1, "availableReplicas": 1},
         ["availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"]),
        ({"collisionCount": 1}, ["collisionCount: Invalid value: 1: cannot be decremented"]),
        ({"collisionCount": 0}, ["collisionCount: Invalid value: 0: cannot be decremented"]),
        ({"collisionCount": None}, ["collisionCount: Invalid value: 0: cannot be decremented"]),
    ],
)  # fmt: skip
def test_status_counts_make_sense(status: Object, texts: list[str]) -> None:
    sub = deployments.RESOURCE.subresource("status")
    assert sub is not None and sub.strategy is not None
    old = {**made(deployments.RESOURCE), "status": {"collisionCount": 2}}
    new = {**tree.copy(old), "status": {"collisionCount": 2, **status}}
    sub.strategy.prepare_for_update(new, old, CTX)
    lines = [str(error) for error in sub.strategy.validate_update(new, old, CTX)]
    assert lines == [f"status.{text}" for text in texts]


def test_a_count_of_collisions_may_be_left_out_when_there_were_none() -> None:
    sub = deployments.RESOURCE.subresource("status")
    assert sub is not None and sub.strategy is not None
    old = {**made(deployments.RESOURCE), "status": {"collisionCount": 0}}
    assert sub.strategy.validate_update({**tree.copy(old), "status": {}}, old, CTX) == []


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"minReadySeconds": -1}, ["minReadySeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"template": None}, ["template: Required value"]),
        ({"template": None, "selector": None}, ["selector: Required value", "template: Required value"]),
        ({"selector": {"x": "y"}}, ["template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template "
                                    "`labels`"]),
        ({"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}},
         ["template.spec.containers: Required value"]),
    ],
)  # fmt: skip
def test_a_replication_controller(spec: Object, texts: list[str]) -> None:
    assert problems(replicationcontrollers.RESOURCE, **spec) == [f"spec.{text}" for text in texts]


UNKNOWN: Object = {"matchExpressions": [{"key": "a", "operator": "X"}]}
NO_OPERATOR = 'selector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator'
MISFIT = 'template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'


@pytest.mark.parametrize(
    ("row", "spec", "texts"),
    [
        (DEPLOYED, {"selector": None}, ["selector: Required value", MISFIT]),
        (DEPLOYED, {"selector": UNKNOWN}, [
            NO_OPERATOR, 'selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"X"}]}: invalid label selector',
        ]),
        (DAEMONS, {"selector": None}, [MISFIT]),
        (DAEMONS, {"selector": UNKNOWN}, [NO_OPERATOR]),
    ],
)  # fmt: skip
def test_selectors(row: Resource, spec: Object, texts: list[str]) -> None:
    assert problems(row, **spec) == [f"spec.{text}" for text in texts]


@pytest.mark.parametrize(("row", "what"), [(DEPLOYED, "ReplicaSet"), (SETS, "StatefulSet"), (DAEMONS, "DaemonSet")])
def test_templates(row: Resource, what: str) -> None:
    obj = made(row)
    obj["spec"]["template"]["spec"].update(activeDeadlineSeconds=1, containers=[])
    assert [str(error) for error in row.strategy.validate(obj, CTX)] == [
        "spec.template.spec.containers: Required value",
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {what} is not Supported",
    ]


def rolled_back(text: str) -> Object:
    obj = made(deployments.RESOURCE)
    obj["metadata"]["annotations"] = {deployments.ROLLBACK: text, "a": "b"}
    deployments.RESOURCE.strategy.default(obj)
    return obj


def test_the_revision_to_go_back_to_is_a_number() -> None:
    obj = rolled_back("+07")
    assert obj["metadata"]["annotations"] == {deployments.ROLLBACK: "7", "a": "b"}
    assert rolled_back("")["metadata"]["annotations"][deployments.ROLLBACK] == ""
    lines = [str(error) for error in deployments.RESOURCE.strategy.validate(rolled_back("-1"), CTX)]
    assert lines == ["spec.rollback.version: Invalid value: -1: must be greater than or equal to 0"]
    table = deployments.RESOURCE.table
    assert table is not None and table.view is not None
    assert table.view(obj)["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize(("text", "why"), [("x", "invalid syntax"), (str(1 << 63), "value out of range")])
def test_what_is_no_revision(text: str, why: str) -> None:
    with pytest.raises(StatusError) as caught:
        rolled_back(text)
    assert caught.value.code == 400
    parsing = f'strconv.ParseInt: parsing "{text}": {why}'
    assert caught.value.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: '
        f"failed to parse annotation[{deployments.ROLLBACK}]={text} as int64: {parsing}"
    )


def test_a_template_generation_out_of_range() -> None:
    obj = made(daemonsets.RESOURCE)
    obj["metadata"]["annotations"] = {daemonsets.GENERATION: str(1 << 63)}
    with pytest.raises(StatusError, match="value out of range"):
        daemonsets.template_generation(obj)


@pytest.mark.parametrize(
    ("value", "number"), [("5%", 5), ("5", 5), ("-5", -5), ("+5%", 0), ("5%%", 0), ("x", 0), (None, 0), (3, 3)]
)
def test_numbers_of_texts(value: int | str | None, number: int) -> None:
    assert number_of(value) == number


def test_a_daemon_sets_rolling_update_has_numbers_with_every_type() -> None:
    strategy = made(daemonsets.RESOURCE, updateStrategy={"type": "OnDelete", "rollingUpdate": {}})["spec"][
        "updateStrategy"
    ]
    assert strategy == {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}
    assert made(daemonsets.RESOURCE, updateStrategy={"type": "OnDelete"})["spec"]["updateStrategy"] == {
        "type": "OnDelete"
    }


PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


@pytest.mark.parametrize(
    ("row", "spec", "texts"),
    [
        (DAEMONS, {"updateStrategy": {"type": "OnDelete"}}, []),
        (DAEMONS, {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "10%"}}}, []),
        (DAEMONS, {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}},
         ["updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"]),
        (DAEMONS, {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}},
         ["updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
        (DAEMONS, {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "x", "maxSurge": "101%"}}},
         [f'updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "x": {PERCENT}',
          'updateStrategy.rollingUpdate.maxSurge: Invalid value: "101%": must not be greater than 100%']),
        (DAEMONS, {"minReadySeconds": -1, "revisionHistoryLimit": -1},
         ["minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
          "revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]),
        (SETS, {"updateStrategy": {"type": "OnDelete"}}, []),
        (SETS, {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
         ["updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0"]),
        (DEPLOYED, {"strategy": {"rollingUpdate": {"maxUnavailable": "101%", "maxSurge": "x"}}},
         [f'strategy.rollingUpdate.maxSurge: Invalid value: "x": {PERCENT}',
          'strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
        (DEPLOYED, {"strategy": {"rollingUpdate": {"maxUnavailable": "x"}}},
         [f'strategy.rollingUpdate.maxUnavailable: Invalid value: "x": {PERCENT}']),
        (DEPLOYED, {"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}},
         ["strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"]),
        (DEPLOYED, {"minReadySeconds": -1, "revisionHistoryLimit": -1},
         ["minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
          "revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]),
        (DEPLOYED, {"progressDeadlineSeconds": -1},
         ["progressDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
          "progressDeadlineSeconds: Invalid value: -1: must be greater than minReadySeconds"]),
    ],
)  # fmt: skip
def test_how_pods_are_replaced(row: Resource, spec: Object, texts: list[str]) -> None:
    assert problems(row, **spec) == [f"spec.{text}" for text in texts]


@pytest.mark.parametrize(
    ("unavailable", "texts"),
    [
        (1, []),
        (0, ["0: cannot be 0"]),
        ("101%", ['"101%": must not be greater than 100%']),
        ("x", [f'"x": {PERCENT}', '"x": cannot be 0']),
    ],
)
def test_how_many_pods_of_a_set_may_be_unavailable_with_its_gate(unavailable: int | str, texts: list[str]) -> None:
    ctx = msgspec.structs.replace(CTX, features={"MaxUnavailableStatefulSet": True})
    obj = made(SETS)
    obj["spec"]["updateStrategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": unavailable, "partition": 0},
    }
    assert [str(error) for error in SETS.strategy.validate(obj, ctx)] == [
        f"spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: {text}" for text in texts
    ]


@pytest.mark.parametrize(
    ("row", "part", "ending"),
    [
        (DAEMONS, "updateStrategy", 'supported values: "RollingUpdate", "OnDelete"'),
        (SETS, "updateStrategy", "must be 'RollingUpdate' or 'OnDelete'"),
        (DEPLOYED, "strategy", 'supported values: "Recreate", "RollingUpdate"'),
    ],
)
def test_ways_to_replace_pods_that_nobody_knows(row: Resource, part: str, ending: str) -> None:
    (found,) = problems(row, **{part: {"type": "X"}})
    assert found.startswith(f"spec.{part}: ") and found.endswith(ending)


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"data": {}, "revision": 0}, []),
        ({"data": {}, "revision": -1}, ["revision: Invalid value: -1: must be greater than or equal to 0"]),
        ({"revision": 1}, ["data: Required value: data is mandatory"]),
        ({"data": [], "revision": 1}, ["data: Required value: data must be a valid JSON object"]),
    ],
)
def test_what_a_revision_has(parts: Object, texts: list[str]) -> None:
    obj: Object = {"metadata": {"name": "w", "namespace": "n"}, **parts}
    assert [str(error) for error in controllerrevisions.RESOURCE.strategy.validate(obj, CTX)] == texts
