"""Feature gates: what may be set, what follows from it, and which of them do something here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kapi
from kapi.machinery.feature_gates import GATES, WITH_EFFECT, problems, resolve, without_effect

SOURCE = Path(kapi.__file__).parent
TABLE = SOURCE / "machinery" / "feature_gates.py"


def test_defaults_are_those_of_the_release() -> None:
    features = resolve({})
    assert features["WatchList"] and features["DynamicResourceAllocation"]
    assert not features["CBORServingAndStorage"] and not features["CoordinatedLeaderElection"]
    assert len(GATES) == 240


def test_stages_switch_what_is_not_named_and_not_locked() -> None:
    features = resolve({"AllAlpha": True, "HPAScaleToZero": False, "AllBeta": False})
    assert features["ContainerStopSignals"] and not features["HPAScaleToZero"]
    assert not features["WatchList"] and not features["SELinuxMount"]
    assert features["DynamicResourceAllocation"] and features["MutatingAdmissionPolicy"]


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ({"NoSuchGate": True}, ["unrecognized feature gate: NoSuchGate"]),
        ({"NoSuchGate": True, "NorThis": True}, ["unrecognized feature gate: NoSuchGate"]),
        (
            {"APIServerTracing": False},
            ["cannot set feature gate APIServerTracing to false, feature is locked to true"],
        ),
        ({"APIServerTracing": True, "AllAlpha": False, "GitRepoVolumeDriver": False}, []),
        ({"CBORServingAndStorage": True, "AllAlpha": True}, []),
        (
            {"GitRepoVolumeDriver": True},
            ["cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false"],
        ),
        (
            {"ClusterTrustBundleProjection": True, "ClusterTrustBundle": False},
            [
                "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]"
            ],
        ),
        ({"ClusterTrustBundleProjection": True, "ClusterTrustBundle": True}, []),
    ],
)
def test_unknown_and_locked_gates_are_refused(given: dict[str, bool], texts: list[str]) -> None:
    assert problems(given) == texts


def test_only_a_changed_gate_is_told_to_be_without_effect() -> None:
    assert without_effect({"EventedPLEG": True, "NodeSwap": True, "HPAScaleToZero": True}) == ["EventedPLEG"]


def test_the_gates_with_effect_are_those_that_the_code_asks_for() -> None:
    asked = set()
    for file in SOURCE.rglob("*.py"):
        if file != TABLE:
            text = file.read_text()
            asked |= set(re.findall(r'(?:gate|enabled|feature|features)[(\[][^"\n]*"([A-Z]\w+)"', text))
            asked |= set(re.findall(r'(?:GATE|\bgate) = "(\w+)"', text))
            asked |= set(re.findall(r'"(\w+)" in [\w.]*gates\b', text))
            for gates in re.findall(r'\bgated\(\s*"([\w ]+)"', text):  # of fields
                asked |= set(gates.split())
            for gates in re.findall(r"\bgates=\(([^)]*)\)", text):  # of a resource's row
                asked |= set(re.findall(r'"(\w+)"', gates))
    for conditions in re.findall(r"if=([A-Za-z,]+)", (SOURCE / "authorization/rbac/bootstrap_roles.txt").read_text()):
        asked |= set(conditions.split(","))
    assert asked & set(GATES) == set(WITH_EFFECT)
