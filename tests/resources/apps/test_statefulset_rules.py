"""What a StatefulSet may say and change: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.apps.statefulsets import RESOURCE
from tests.resources.strategy_kit import changes, made, problems

CLAIM = {
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
}


MOUNTING = {"name": "c", "image": "i:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}


def template(**spec: Any) -> Object:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


SPEC = {"selector": {"matchLabels": {"a": "b"}}, "template": template(), "serviceName": "s"}


def of_spec(**spec: Any) -> list[str]:
    return [text.removeprefix("spec.") for text in problems(RESOURCE, spec={**SPEC, **spec})]


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
    ],
)
def test_changes(change: Object, texts: list[str]) -> None:
    old = made(RESOURCE, spec=SPEC)
    new = made(RESOURCE, spec={**SPEC, **change})
    assert changes(RESOURCE, old, spec=new["spec"]) == texts
