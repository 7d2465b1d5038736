"""Which pods and claims a scope of a quota selects."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.podsecurity.levels import BASELINE, LATEST, PRIVILEGED, RESTRICTED, LevelVersion, Policy, policy_of
from kapi.admission.quota.evaluators import claim_matches, pod_matches
from kapi.machinery.tree import Object

REQUESTS: Object = {"resources": {"requests": {"cpu": "1"}}}
LIMITS: Object = {"resources": {"limits": {"memory": "1"}}}
STORAGE: Object = {"resources": {"requests": {"ephemeral-storage": "1"}}}


def scope(name: str, operator: str = "Exists", *values: str) -> Object:
    return {"scopeName": name, "operator": operator, "values": list(values)}


def affinity(**term: Any) -> Object:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def preferred(*terms: Object | None) -> Object:
    weighted = [{} if term is None else {"podAffinityTerm": term} for term in terms]
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}


@pytest.mark.parametrize(
    ("requirement", "spec", "selected"),
    [
        (scope("Terminating"), {"activeDeadlineSeconds": 0}, True),
        (scope("Terminating"), {}, False),
        (scope("NotTerminating"), {"activeDeadlineSeconds": 1}, False),
        (scope("NotTerminating"), {}, True),
        (scope("BestEffort"), {"containers": [{}]}, True),
        (scope("BestEffort"), {"containers": [STORAGE]}, True),
        (scope("BestEffort"), {"containers": [{}, REQUESTS]}, False),
        (scope("BestEffort"), {"initContainers": [LIMITS]}, False),
        (scope("BestEffort"), REQUESTS, False),
        (scope("NotBestEffort"), {"containers": [LIMITS]}, True),
        (scope("NotBestEffort"), {"containers": [{}]}, False),
        (scope("PriorityClass"), {"priorityClassName": "a"}, True),
        (scope("PriorityClass"), {}, False),
        (scope("PriorityClass", "DoesNotExist"), {"priorityClassName": "a"}, False),
        (scope("PriorityClass", "DoesNotExist"), {}, True),
        (scope("PriorityClass", "In", "a", "b"), {"priorityClassName": "b"}, True),
        (scope("PriorityClass", "In", "a"), {"priorityClassName": "b"}, False),
        (scope("PriorityClass", "In", "a"), {}, False),
        (scope("PriorityClass", "NotIn", "a"), {"priorityClassName": "a"}, False),
        (scope("PriorityClass", "NotIn", "a"), {"priorityClassName": "b"}, True),
        (scope("PriorityClass", "NotIn", "a"), {}, True),
        (scope("CrossNamespacePodAffinity"), {}, False),
        (scope("CrossNamespacePodAffinity"), affinity(), False),
        (scope("CrossNamespacePodAffinity"), affinity(namespaces=["n"]), True),
        (scope("CrossNamespacePodAffinity"), affinity(namespaceSelector={}), True),
        (scope("CrossNamespacePodAffinity"), preferred({"namespaces": ["n"]}), True),
        (scope("CrossNamespacePodAffinity"), preferred(None, {}, {"namespaceSelector": {}}), True),
        (scope("CrossNamespacePodAffinity"), preferred(None, {}), False),
        (scope("VolumeAttributesClass"), {"priorityClassName": "a"}, False),
    ],
)
def test_pods(requirement: Object, spec: Object, selected: bool) -> None:
    assert pod_matches(requirement, {"spec": spec}) is selected


CHANGING: Object = {
    "spec": {"volumeAttributesClassName": "a"},
    "status": {"currentVolumeAttributesClassName": "b", "modifyVolumeStatus": {"targetVolumeAttributesClassName": "c"}},
}


@pytest.mark.parametrize(
    ("requirement", "claim", "selected"),
    [
        (scope("VolumeAttributesClass"), {}, False),
        (scope("VolumeAttributesClass"), CHANGING, True),
        (scope("VolumeAttributesClass", "DoesNotExist"), {}, True),
        (scope("VolumeAttributesClass", "DoesNotExist"), CHANGING, False),
        (scope("VolumeAttributesClass", "In", "a"), CHANGING, True),
        (scope("VolumeAttributesClass", "In", "b"), CHANGING, True),
        (scope("VolumeAttributesClass", "In", "c"), CHANGING, True),
        (scope("VolumeAttributesClass", "In", "d"), CHANGING, False),
        (scope("VolumeAttributesClass", "NotIn", "a", "b", "c"), CHANGING, False),
        (scope("VolumeAttributesClass", "NotIn", "a", "b"), CHANGING, True),
        (scope("PriorityClass"), CHANGING, False),
    ],
)
def test_claims(requirement: Object, claim: Object, selected: bool) -> None:
    assert claim_matches(requirement, claim) is selected


@pytest.mark.parametrize(
    ("one", "other", "equivalent"),
    [
        ({}, {}, True),
        ({"enforce": LevelVersion(BASELINE)}, {"enforce": LevelVersion(BASELINE)}, True),
        ({"enforce": LevelVersion(BASELINE)}, {}, False),
        ({"audit": LevelVersion(RESTRICTED)}, {}, False),
        ({"warn": LevelVersion(RESTRICTED)}, {}, False),
        ({"enforce": LevelVersion(BASELINE, 20)}, {"enforce": LevelVersion(BASELINE, 21)}, False),
        ({"enforce": LevelVersion(PRIVILEGED, 20)}, {"enforce": LevelVersion(PRIVILEGED, 21)}, True),
    ],
)
def test_a_version_of_privileged_is_no_difference(one: Any, other: Any, equivalent: bool) -> None:
    assert Policy(**one).equivalent(Policy(**other)) is equivalent
    assert Policy(**other).equivalent(Policy(**one)) is equivalent


@pytest.mark.parametrize(
    ("labels", "warn"),
    [
        ({}, LevelVersion(BASELINE, 20)),
        ({"enforce": "baseline"}, LevelVersion(BASELINE, 20)),
        ({"enforce": "baseline", "enforce-version": "v1.30"}, LevelVersion(BASELINE, 20)),
        ({"enforce": "privileged", "enforce-version": "v1.30"}, LevelVersion(BASELINE, 20)),
        ({"enforce": "restricted", "enforce-version": "v1.30"}, LevelVersion(RESTRICTED, 30)),
        ({"enforce": "restricted"}, LevelVersion(RESTRICTED, LATEST)),
        ({"enforce": "restricted", "enforce-version": "v1.30", "warn-version": "v1.25"}, LevelVersion(RESTRICTED, 25)),
        ({"enforce": "restricted", "warn": "privileged"}, LevelVersion(PRIVILEGED, 20)),
        ({"enforce": "x"}, LevelVersion(BASELINE, 20)),
    ],
)
def test_a_stricter_level_that_is_enforced_warns_too(labels: dict[str, str], warn: LevelVersion) -> None:
    given = {f"pod-security.kubernetes.io/{name}": value for name, value in labels.items()}
    assert policy_of(given, Policy(warn=LevelVersion(BASELINE, 20)))[0].warn == warn
