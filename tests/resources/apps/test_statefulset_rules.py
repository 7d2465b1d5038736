"""What a StatefulSet may say and change: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.apps.statefulsets import RESOURCE
from tests.resources.strategy_kit import changes, made, problems, short

MIRROR = "kubernetes.io/config.mirror"
CLAIM: Object = {
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
}


MOUNTING = {"name": "c", "image": "i:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}


def template(**spec: Any) -> Object:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


SPEC = {"selector": {"matchLabels": {"a": "b"}}, "template": template(), "serviceName": "s"}


def of_spec(**spec: Any) -> list[str]:
    return short(problems(RESOURCE, spec={**SPEC, **spec}), "spec.")


def rolling(**parts: Any) -> Object:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": parts}}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"replicas": 0, "minReadySeconds": 0, "ordinals": {"start": 0}}, []),
        ({"replicas": -1}, ["replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({"minReadySeconds": -1}, ["minReadySeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"ordinals": {"start": -1}}, ["ordinals.start: Invalid value: -1: must be greater than or equal to 0"]),
        ({"podManagementPolicy": "Parallel"}, []),
        ({"podManagementPolicy": "X"},
         ["podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'"]),
        ({"updateStrategy": {"type": "OnDelete"}}, []),
        (rolling(partition=0), []),
        (rolling(partition=-1),
         ["updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0"]),
        ({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}, []),
        ({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}},
         ['persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "X": supported values: "Retain", "Delete"']),
        ({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "X"}},
         ['persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "X": supported values: "Retain", "Delete"']),
        ({"serviceName": "a.b"}, ['serviceName: Invalid value: "a.b": must not contain dots']),
        ({"template": template(restartPolicy="Never")},
         ['template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
        ({"volumeClaimTemplates": [CLAIM],
          "template": template(containers=[MOUNTING])},
         []),
        ({"template": template(containers=[MOUNTING])},
         ['template.spec.containers[0].volumeMounts[0].name: Not found: "v"']),
        ({"volumeClaimTemplates": [{**CLAIM, "spec": {**CLAIM["spec"], "accessModes": []}}]},
         ["volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required"]),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "X"}]}},
         ['selector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator',
          'selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"X"}]}']),
        # upstream checks labels and annotations of the template twice
        ({"template": {**template(), "metadata": {"labels": {"a": "b", "c": "-"}}}},
         ['template.labels: Invalid value: "-": <label value>'] * 2),
        ({"template": {**template(), "metadata": {"labels": {"a": "b"}, "annotations": {"-": ""}}}},
         ['template.annotations: Invalid value: "-": <name part>'] * 2),
        ({"template": {**template(), "metadata": {"labels": {"a": "b"}, "annotations": {MIRROR: ""}}}},
         [f'template.annotations[{MIRROR}]: Invalid value: "": must set spec.nodeName if mirror pod annotation is set'] * 2),
    ],
)  # fmt: skip
def test_spec(spec: Object, texts: list[str]) -> None:
    assert of_spec(**spec) == texts


def test_strategies() -> None:
    (found,) = of_spec(updateStrategy={"type": "X"})
    assert found.startswith("updateStrategy: Invalid value: ") and found.endswith(
        "must be 'RollingUpdate' or 'OnDelete'"
    )
    (found,) = of_spec(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}})
    assert found.startswith("updateStrategy.rollingUpdate: Invalid value: ")
    assert found.endswith("only allowed for updateStrategy 'RollingUpdate'")


FORBIDDEN = (
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({"replicas": 2, "ordinals": {"start": 1}, "minReadySeconds": 1, "revisionHistoryLimit": 1}, []),
        ({"updateStrategy": {"type": "OnDelete"}, "template": template(hostNetwork=True)}, []),
        ({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}, []),
        ({"serviceName": "t"}, [FORBIDDEN]),
        ({"podManagementPolicy": "Parallel"}, [FORBIDDEN]),
        ({"volumeClaimTemplates": [CLAIM]}, [FORBIDDEN]),
        ({"replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({"template": template(containers=[])}, ["spec.template.spec.containers: Required value"]),
    ],
)
def test_changes(change: Object, texts: list[str]) -> None:
    old = made(RESOURCE, spec=SPEC)
    new = made(RESOURCE, spec={**SPEC, **change})
    assert changes(RESOURCE, old, spec=new["spec"]) == texts


def test_a_template_that_was_accepted_once_may_become_wrong_otherwise() -> None:
    old = made(RESOURCE, spec={**SPEC, "template": template(containers=[])})
    new = made(RESOURCE, spec={**SPEC, "template": template(containers=[MOUNTING])})
    assert changes(RESOURCE, old, spec=new["spec"]) == []


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        ({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "collisionCount": 2}, []),
        ({"observedGeneration": -1}, ["observedGeneration: Invalid value: -1: must be greater than or equal to 0"]),
        ({"replicas": 1, "readyReplicas": 2}, ["readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
        ({"replicas": 1, "availableReplicas": 1},
         ["availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas"]),
        ({"collisionCount": 1}, ["collisionCount: Invalid value: 1: cannot be decremented"]),
    ],
)  # fmt: skip
def test_status(status: Object, texts: list[str]) -> None:
    old = {**made(RESOURCE, spec=SPEC), "status": {"replicas": 0, "collisionCount": 2}}
    status = {"replicas": 0, "collisionCount": 2, **status}
    assert short(changes(RESOURCE, old, subresource="status", status=status), "status.") == texts


def test_a_change_of_the_status_keeps_the_name() -> None:
    old = made(RESOURCE, spec=SPEC)
    metadata = {**old["metadata"], "name": "b", "uid": "u", "resourceVersion": "1"}
    assert changes(RESOURCE, old, subresource="status", metadata=metadata) == [
        'metadata.name: Invalid value: "b": field is immutable'
    ]
