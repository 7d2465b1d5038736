"""PodGroup and Workload: their rules, what gates leave of them, status and table."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.feature_gates import resolve
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources.strategy_kit import short

Object = dict[str, Any]
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads"
ALL = ("TopologyAwareWorkloadScheduling", "DRAWorkloadResourceClaims", "WorkloadAwarePreemption")
GANG: Object = {"gang": {"minCount": 2}}
TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


def started(*gates: str) -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started(rows=(*BUILT_IN, *PREVIEWS)))
    api.environment.features = resolve(dict.fromkeys(gates, True))
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    return api


def group(**spec: Any) -> Object:
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": GANG, **spec}}


def workload(*templates: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": list(templates), **spec}}


def template(name: str = "t", **spec: Any) -> Object:
    return {"name": name, "schedulingPolicy": GANG, **spec}


def texts(answer: Any) -> list[str]:
    assert answer.code == 422, answer.json
    return [f"{cause['field']}: {cause['message']}" for cause in answer.json["details"]["causes"]]


EVERYTHING: Object = {
    "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
    "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
    "disruptionMode": "PodGroup",
    "priorityClassName": "high",
    "priority": 7,
}


def test_a_pod_group() -> None:
    api = started(*ALL)
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    made = api.ask("POST", GROUPS, {**group(podGroupTemplateRef=reference, **EVERYTHING), "status": {"conditions": []}})
    assert made.code == 201, made.json
    assert made.json["spec"] == {"podGroupTemplateRef": reference, "schedulingPolicy": GANG, **EVERYTHING}
    table = api.ask("GET", GROUPS, headers=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


def test_fields_whose_gate_is_off_are_dropped() -> None:
    api = started()
    made = api.ask("POST", GROUPS, group(**EVERYTHING)).json
    kept = {name: value for name, value in made["spec"].items() if value is not None}
    assert kept == {"schedulingPolicy": GANG, "disruptionMode": "Pod"}  # the default, as for every group that is read
    made = api.ask("POST", WORKLOADS, workload(template(**EVERYTHING))).json
    left = made["spec"]["podGroupTemplates"][0]
    assert {name for name, value in left.items() if value is not None} == {"name", "schedulingPolicy"}


def test_fields_that_are_stored_stay_when_their_gate_goes_off() -> None:
    api = started(*ALL)
    made = api.ask("POST", GROUPS, group(**EVERYTHING)).json
    api.environment.features = resolve({})
    kept = api.ask("PUT", f"{GROUPS}/g", {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
    assert kept.code == 200 and kept.json["spec"] == made["spec"]
    other = {**kept.json, "spec": {**made["spec"], "disruptionMode": "Pod"}}
    assert texts(api.ask("PUT", f"{GROUPS}/g", other)) == ["spec.disruptionMode: Forbidden"]


def test_a_group_is_disrupted_pod_by_pod_unless_it_says_so() -> None:
    assert started(*ALL).ask("POST", GROUPS, group()).json["spec"]["disruptionMode"] == "Pod"


def test_a_group_without_a_disruption_mode_outlasts_a_change_of_the_gates() -> None:
    api = started()
    made = api.ask("POST", GROUPS, group()).json
    api.environment.features = started(*ALL).environment.features
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}, "spec": group()["spec"]}
    assert api.ask("PUT", f"{GROUPS}/g", labelled).code == 200


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"schedulingPolicy": {}}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
        (
            {"schedulingPolicy": {"basic": {}, **GANG}},
            'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
        ),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
        (
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
        ),
        (
            {"podGroupTemplateRef": {}},
            'spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`',
        ),
        (
            {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": ""}}},
            "spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value",
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": ""}]}},
            "spec.schedulingConstraints.topology[0].key: Required value",
        ),
        (
            {"resourceClaims": [{"name": str(i), "resourceClaimName": "c"} for i in range(5)]},
            "spec.resourceClaims: Too many: 5: must have at most 4 items",
        ),
        (
            {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}] * 2},
            'spec.resourceClaims[1]: Duplicate value: {"name":"c","resourceClaimName":"c"}',
        ),
        (
            {"resourceClaims": [{"name": "c"}]},
            'spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`, '
            "`resourceClaimTemplateName`",
        ),
        ({"disruptionMode": ""}, 'spec.disruptionMode: Unsupported value: "": supported values: "Pod", "PodGroup"'),
        ({"disruptionMode": "x"}, 'spec.disruptionMode: Unsupported value: "x": supported values: "Pod", "PodGroup"'),
        (
            {"priority": 2_000_000_000},
            "spec.priority: Invalid value: 2000000000: must be less than or equal to 1000000000",
        ),
        (
            {"podGroupTemplateRef": {"workload": {"workloadName": "W", "podGroupTemplateName": "t"}}},
            'spec.podGroupTemplateRef.workload.workloadName: Invalid value: "W": <subdomain>',
        ),
        (
            {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "T"}}},
            'spec.podGroupTemplateRef.workload.podGroupTemplateName: Invalid value: "T": <label>',
        ),
        ({"resourceClaims": [{"name": "", "resourceClaimName": "c"}]}, "spec.resourceClaims[0].name: Required value"),
        (
            {"resourceClaims": [{"name": "c", "resourceClaimName": "C"}]},
            'spec.resourceClaims[0].resourceClaimName: Invalid value: "C": <subdomain>',
        ),
        (
            {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "C"}]},
            'spec.resourceClaims[0].resourceClaimTemplateName: Invalid value: "C": <subdomain>',
        ),
    ],
)
def test_what_is_wrong_with_a_pod_group(spec: Object, text: str) -> None:
    api = started(*ALL)
    assert short(texts(api.ask("POST", GROUPS, group(**spec)))) == [text]
    if "podGroupTemplateRef" not in spec:
        below = text.replace("spec.", "spec.podGroupTemplates[0].", 1)
        assert short(texts(api.ask("POST", WORKLOADS, workload(template(**spec))))) == [below]


def test_the_priority_of_a_pod_group_may_be_that_of_any_class_of_a_user() -> None:
    api = started(*ALL)
    assert api.ask("POST", GROUPS, group(priority=1_000_000_000)).code == 201
    refused = api.ask("POST", GROUPS, group(priority=1_000_000_001))
    assert texts(refused) == ["spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000"]


def test_a_pod_group_lasts_as_it_is() -> None:
    api = started(*ALL)
    made = api.ask("POST", GROUPS, group(**EVERYTHING)).json
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    changed = {"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": reference, "disruptionMode": "Pod"}
    assert texts(api.ask("PUT", f"{GROUPS}/g", {**made, "spec": changed})) == [
        f"spec.{field}: Invalid value: null: field is immutable"
        for field in (
            "podGroupTemplateRef",
            "schedulingPolicy",
            "schedulingConstraints",
            "resourceClaims",
            "disruptionMode",
            "priorityClassName",
            "priority",
        )
    ]


def test_the_status_of_a_pod_group() -> None:
    api = started(*ALL)
    made = api.ask("POST", GROUPS, group(**EVERYTHING)).json
    good = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c-1"}]}
    done = api.ask("PUT", f"{GROUPS}/g/status", {**made, "spec": {}, "status": good})
    assert (done.code, done.json["status"], done.json["spec"]) == (200, good, made["spec"])
    bad = {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "_"}], "conditions": [{"type": "A"}]}
    found = texts(api.ask("PUT", f"{GROUPS}/g/status", {**done.json, "status": bad}))
    assert [text.partition(":")[0] for text in found] == [
        "status.conditions[0].status",
        "status.conditions[0].lastTransitionTime",
        "status.conditions[0].reason",
        "status.resourceClaimStatuses[0].name",
        "status.resourceClaimStatuses[0].resourceClaimName",
    ]


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (5, "status.resourceClaimStatuses: Too many: 5: must have at most 4 items"),
        (2, 'status.resourceClaimStatuses[1]: Duplicate value: {"name":"c","resourceClaimName":"c-1"}'),
    ],
)
def test_claims_in_the_status_of_a_pod_group(states: int, text: str) -> None:
    api = started(*ALL)
    made = api.ask("POST", GROUPS, group(**EVERYTHING)).json
    status = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c-1"}] * states}
    assert texts(api.ask("PUT", f"{GROUPS}/g/status", {**made, "status": status})) == [text]


def test_who_controls_a_workload() -> None:
    reference = {"apiGroup": "B", "kind": "Job", "name": "j"}
    (found,) = texts(started().ask("POST", WORKLOADS, workload(template(), controllerRef=reference)))
    assert short([found]) == ['spec.controllerRef.apiGroup: Invalid value: "B": <subdomain>']


def test_a_workload() -> None:
    api = started()
    reference = {"apiGroup": "batch", "kind": "Job", "name": "j"}
    made = api.ask("POST", WORKLOADS, workload(template("a"), template("b"), controllerRef=reference))
    assert made.code == 201
    changed = {**made.json, "spec": {"podGroupTemplates": [template("a")]}}
    assert texts(api.ask("PUT", f"{WORKLOADS}/w", changed)) == [
        "spec.controllerRef: Invalid value: null: field is immutable",
        "spec.podGroupTemplates: Invalid value: null: field is immutable",
    ]


@pytest.mark.parametrize(("first", "then"), [((), ALL), (ALL, ())])
def test_a_workload_outlasts_a_change_of_the_gates(first: tuple[str, ...], then: tuple[str, ...]) -> None:
    api = started(*first)
    made = api.ask("POST", WORKLOADS, workload(template())).json
    assert made["spec"]["podGroupTemplates"] == [{**template(), "schedulingConstraints": None}]
    api.environment.features = resolve(dict.fromkeys(then, True))
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    done = api.ask("PUT", f"{WORKLOADS}/w", labelled)
    assert (done.code, done.json["spec"]) == (200, made["spec"])


def test_what_is_wrong_with_a_workload() -> None:
    api = started()
    assert texts(api.ask("POST", WORKLOADS, workload())) == ["spec.podGroupTemplates: Required value"]
    assert texts(api.ask("POST", WORKLOADS, workload(*(template(str(i)) for i in range(9))))) == [
        "spec.podGroupTemplates: Too many: 9: must have at most 8 items"
    ]
    found = texts(
        api.ask("POST", WORKLOADS, workload(template(""), template("b"), template("b"), controllerRef={"kind": "a/b"}))
    )
    assert [text.partition(": Invalid")[0].partition(": {")[0] for text in found] == [
        "spec.controllerRef.kind",
        "spec.controllerRef.name: Required value",
        "spec.podGroupTemplates[2]: Duplicate value",
        "spec.podGroupTemplates[0].name: Required value",
    ]
