"""What changes of pods, and writes of their status, come to in the rarer cases."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from tests.resources.core.test_pods import CTX, after, pod, problems, strategy_of


@pytest.mark.parametrize(
    ("field", "shown"),
    [("automountServiceAccountToken", "AutomountServiceAccountToken"), ("setHostnameAsFQDN", "SetHostnameAsFQDN")],
)
def test_saying_no_is_another_thing_than_saying_nothing(field: str, shown: str) -> None:
    _, lines = after(pod(), lambda p: p["spec"].update({field: False}))
    assert len(lines) == 1 and lines[0].startswith("spec: Forbidden: pod updates may not change fields other than")
    assert f'"{shown}": null,' in lines[0] and f'"{shown}": false,' in lines[0]


def test_an_empty_struct_is_another_thing_than_none() -> None:
    _, lines = after(pod(), lambda p: p["spec"].update(affinity={}))
    assert len(lines) == 1 and '+ "Affinity": {' in lines[0]
    _, lines = after(pod(), lambda p: p["spec"].update(nodeSelector={}, hostAliases=[]))
    assert lines == []


def test_a_gate_added_twice_is_told_once() -> None:
    old = pod({"schedulingGates": [{"name": "a"}]})
    _, lines = after(old, lambda p: p["spec"].update(schedulingGates=[{"name": "b"}, {"name": "b"}]))
    text = "Forbidden: only deletion is allowed, but found new scheduling gate 'b'"
    assert [line for line in lines if "only deletion" in line] == [f"spec.schedulingGates[1].name: {text}"]


def test_status_of_features_that_are_off_is_dropped() -> None:
    mount = {"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": ""}}}
    state = {
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "nowhere"}],
        "containerStatuses": [{"name": "c", "volumeMounts": [mount]}],
    }
    new, lines = after(pod(), lambda p: p["status"].update(json.loads(json.dumps(state))), strategy_of("status"))
    assert lines == []
    assert "nodeAllocatableResourceClaimStatuses" not in new["status"]
    assert new["status"]["containerStatuses"][0]["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]


def test_what_was_stored_of_them_stays_and_is_judged() -> None:
    old = pod()
    old["status"]["nodeAllocatableResourceClaimStatuses"] = [{"resourceClaimName": "nowhere"}]
    _, lines = after(old, lambda p: p["status"].update(phase="Running"), strategy_of("status"))
    assert any("no mapping found in pod reference" in line for line in lines)


@pytest.mark.parametrize("stored", [{}, {"resources": {"limits": {"cpu": "1"}}}])
def test_the_resources_of_a_pod_as_a_whole_need_their_gate_or_stored_ones(stored: Object) -> None:
    old = pod()
    old["status"].update(stored)
    new = tree.copy(old)
    new["status"].update(resources={"limits": {"cpu": "2"}}, allocatedResources={"cpu": "2"})
    ctx = msgspec.structs.replace(CTX, features={"InPlacePodLevelResourcesVerticalScaling": False})
    strategy_of("status").prepare_for_update(new, old, ctx)
    found = new["status"].get("resources"), new["status"].get("allocatedResources")
    assert found == (({"limits": {"cpu": "2"}}, {"cpu": "2"}) if stored else (None, None))


def test_addresses_that_are_none_are_no_pair() -> None:
    ips = [{"ip": "10.0.0.1"}, {"ip": "nonsense"}]
    _, lines = after(pod(), lambda p: p["status"].update(podIP="10.0.0.1", podIPs=ips), strategy_of("status"))
    assert lines[1] == (
        "status.podIPs: Internal error: failed to check for dual stack with error:invalid IP[1]: nonsense"
    )
    assert lines[2].startswith("status.podIPs: Invalid value: [")


def test_a_resize_gives_no_pod_resources_where_there_were_none() -> None:
    _, lines = after(pod(), lambda p: p["spec"].update(resources={}), strategy_of("resize"))
    assert lines == ["spec: Forbidden: only cpu and memory resources are mutable"]


def test_a_claim_without_a_name_is_told_so_and_no_more() -> None:
    lines = problems(pod(container={"resources": {"claims": [{"name": ""}]}}))
    assert lines == ["spec.containers[0].resources.claims[0]: Required value"]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("[", "unexpected end of JSON input"),
        ("{}", "json: cannot unmarshal object into Go value of type []core.Toleration"),
        ("[1]", "json: cannot unmarshal number into Go value of type core.Toleration"),
        (
            '[{"Key": true}]',
            "json: cannot unmarshal bool into Go struct field Toleration.Key of type string",
        ),
    ],
)
def test_tolerations_in_an_annotation_that_cannot_be_read(text: str, detail: str) -> None:
    key = "scheduler.alpha.kubernetes.io/tolerations"
    assert problems(pod(annotations={key: text})) == [f'metadata.annotations: Invalid value: "{key}": {detail}']


def test_tolerations_in_an_annotation_are_judged() -> None:
    key = "scheduler.alpha.kubernetes.io/tolerations"
    made: Any = pod(annotations={key: '[{"OPERATOR": "Exists", "value": "v"}]'})
    lines = [line for line in problems(made) if line.startswith(f"metadata.annotations.{key}[0].operator")]
    assert len(lines) == 1 and CTX.warnings == []
