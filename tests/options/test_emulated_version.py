"""``--emulated-version`` and ``--min-compatibility-version``: values, and what follows from them for gates and resources."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kapi.assembly.storage import enablement
from kapi.observability.metrics import build_families
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.servers.core.enablement import served
from kapi.servers.core.install import core_rows

EMULATED = "ServerRunOptions.{} cannot be set to true if the emulation version is the same as the binary version"
ADVICE = "Consider setting --runtime-config-emulation-forward-compatible=true"


def errors(*flags: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        Options.from_command_line(flags)
    return list(caught.value.messages)


def names(*flags: str) -> set[str]:
    rows = served(core_rows(), enablement(Options.from_command_line(flags)))
    return {f"{row.group_version}/{row.plural}" for row in rows}


@pytest.mark.parametrize(
    ("flags", "versions"),
    [
        ((), ("1.36", "1.35")),
        (("--emulated-version=1.35",), ("1.35", "1.34")),
        (("--emulated-version=kube=v1.34.0",), ("1.34", "1.33")),
        (("--emulated-version=1.33",), ("1.33", "1.33")),  # no older release can stand beside it
        (("--emulated-version=1.35", "--min-compatibility-version=kube=1.35"), ("1.35", "1.35")),
        (("--min-compatibility-version=1.33",), ("1.36", "1.33")),
    ],
)
def test_versions(flags: Sequence[str], versions: tuple[str, str]) -> None:
    assert tuple(map(str, Options.from_command_line(flags).generic.version)) == versions


@pytest.mark.parametrize(
    ("flags", "texts"),
    [
        (
            ("--emulated-version=1.32",),
            [
                "emulation version 1.32 is not between [1.33, 1.36.0]",
                "minCompatibilityVersion version 1.33 is not between [1.33, 1.32]",
            ],
        ),
        (("--emulated-version=1.37",), ["emulation version 1.37 is not between [1.33, 1.36.0]"]),
        (
            ("--emulated-version=1.35", "--min-compatibility-version=1.36"),
            ["minCompatibilityVersion version 1.36 is not between [1.33, 1.35]"],
        ),
        (
            ("--min-compatibility-version=1.32",),
            ["minCompatibilityVersion version 1.32 is not between [1.33, 1.36]"],
        ),
        (("--emulated-version=1.35.1",), ["patch version not allowed, got: kube=1.35.1"]),
        (("--emulated-version=1",), ['illegal version string "1"']),
        (("--emulated-version=newest",), ['could not parse "newest" as version']),
        (("--emulated-version=wardle=1.35",), ["component not registered: wardle"]),
        (
            ("--emulated-version=1.35,kube=1.34",),
            ["duplicate version flag, kube=1.35 and kube=1.34"],
        ),
        (("--emulation-forward-compatible",), [EMULATED.format("EmulationForwardCompatible")]),
        (
            ("--runtime-config-emulation-forward-compatible",),
            [EMULATED.format("RuntimeConfigEmulationForwardCompatible")],
        ),
    ],
)
def test_bad_values_get_the_errors_of_upstream(flags: Sequence[str], texts: list[str]) -> None:
    assert errors(*flags) == texts


def test_gates_have_the_defaults_and_locks_of_the_release() -> None:
    features = Options.from_command_line(["--emulated-version=1.33"]).generic.features
    assert not features["WatchList"] and not features["DynamicResourceAllocation"] and not features["ComponentStatusz"]
    assert features["DisableNodeKubeProxyVersion"]


def test_a_gate_that_the_release_did_not_have_cannot_be_set() -> None:
    assert errors("--emulated-version=1.34", "--feature-gates=GenericWorkload=true") == [
        "cannot set feature gate GenericWorkload to true, feature is PreAlpha at emulated version 1.34, "
        "min compatibility version 1.33"
    ]


def test_a_gate_is_locked_from_the_release_that_locks_it() -> None:
    Options.from_command_line(["--emulated-version=1.34", "--feature-gates=JobManagedBy=false"])
    assert errors("--emulated-version=1.35", "--feature-gates=JobManagedBy=false") == [
        "cannot set feature gate JobManagedBy to false, feature is locked to true"
    ]


def test_a_gate_needs_those_that_it_depends_on() -> None:
    off = "--feature-gates=DynamicResourceAllocation=false"
    assert errors("--emulated-version=1.34", off) == [
        "DRAAdminAccess is enabled, but depends on features that are disabled: [DynamicResourceAllocation]",
        "DRAPrioritizedList is enabled, but depends on features that are disabled: [DynamicResourceAllocation]",
        "DRASchedulerFilterTimeout is enabled, but depends on features that are disabled: [DynamicResourceAllocation]",
    ]
    Options.from_command_line(["--emulated-version=1.33", off])
    assert errors("--feature-gates=WorkloadWithJob=true") == [
        "WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]"
    ]
    Options.from_command_line(["--feature-gates=WorkloadWithJob=true,GenericWorkload=true"])


def test_hashes_of_the_stored_versions_can_be_switched_off() -> None:
    for off in (False, True):
        flags = ["--feature-gates=StorageVersionHash=false"] if off else []
        rows = served(core_rows(), enablement(Options.from_command_line(flags)))
        assert any(row.storage_version_hash for row in rows) != off


def test_what_is_newer_than_the_release_is_not_served() -> None:
    now, before = names(), names("--emulated-version=1.33")
    assert now - before == {
        *(f"admissionregistration.k8s.io/v1/mutatingadmissionpolic{end}" for end in ("ies", "ybindings")),
        *(
            f"resource.k8s.io/v1/{plural}"
            for plural in ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
        ),
        "storage.k8s.io/v1/volumeattributesclasses",
    }
    assert not before - now
    assert now - names("--emulated-version=1.35") == {
        "admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
        "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
    }


def test_what_the_release_had_can_be_enabled() -> None:
    extra = names("--emulated-version=1.33", "--runtime-config=api/all=true") - names("--emulated-version=1.33")
    assert "resource.k8s.io/v1beta2/resourceclaims" in extra
    assert not any("resource.k8s.io/v1/" in name or "resourcepoolstatusrequests" in name for name in extra)


def test_what_has_ended_since_the_release_is_there_when_it_is_enabled() -> None:
    policies = {
        f"admissionregistration.k8s.io/v1beta1/{plural}"
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    }
    enabled = "--runtime-config=admissionregistration.k8s.io/v1beta1=true"
    assert not policies & names("--emulated-version=1.33")
    assert names("--emulated-version=1.33", enabled) - names("--emulated-version=1.33") == policies
    for later in ("1.34", "1.35", "1.36"):
        found = names(f"--emulated-version={later}", enabled) - names(f"--emulated-version={later}")
        assert found == {
            f"admissionregistration.k8s.io/v1beta1/{plural}"
            for plural in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
        }


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (
            "storage.k8s.io/v1/volumeattributesclasses=true",
            "cannot enable resource storage.k8s.io/v1, Resource=volumeattributesclasses in runtime-config because it is "
            f"introduced at 1.34 after the current version 1.33. {ADVICE}",
        ),
        (
            "resource.k8s.io/v1=true",
            "cannot enable version resource.k8s.io/v1 in runtime-config because all the resources have been introduced "
            f"after the current version 1.33. {ADVICE}",
        ),
    ],
)
def test_what_is_newer_cannot_be_enabled_by_name_without_the_flag_for_it(setting: str, text: str) -> None:
    flags = ("--emulated-version=1.33", f"--runtime-config={setting}")
    with pytest.raises(ValueError, match=r"^cannot enable") as caught:
        names(*flags)
    assert str(caught.value) == text
    assert names(*flags, "--runtime-config-emulation-forward-compatible") - names("--emulated-version=1.33")


def test_newer_versions_of_what_is_enabled_follow_with_the_flag_for_it() -> None:
    flags = ("--emulated-version=1.33", "--emulation-forward-compatible")
    assert names(*flags) == names("--emulated-version=1.33")  # nothing older is enabled
    extra = names(*flags, "--runtime-config=resource.k8s.io/v1beta1/deviceclasses=true") - names(*flags)
    assert extra == {f"resource.k8s.io/{version}/deviceclasses" for version in ("v1beta1", "v1beta2", "v1")}
    refused = "resource.k8s.io/v1beta1/deviceclasses=true,resource.k8s.io/v1=false"
    assert "resource.k8s.io/v1/deviceclasses" not in names(*flags, f"--runtime-config={refused}")
    alpha = names(*flags, "--runtime-config=admissionregistration.k8s.io/v1alpha1=true") - names(*flags)
    assert alpha == {
        "admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicies",
        "admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicybindings",
    }


def test_metrics_show_the_release() -> None:
    generic = Options.from_command_line(["--emulated-version=1.34"]).generic
    families = {family.name: family for family in build_families(generic.features, generic.version)}
    [version] = families["version_info"].samples
    assert version.labels == {"component": "kube", "binary": "1.36", "emulation": "1.34", "min_compat": "1.33"}
    gates = {
        one.labels["name"]: (one.labels["stage"], one.value) for one in families["kubernetes_feature_enabled"].samples
    }
    assert (gates["GenericWorkload"], gates["JobManagedBy"]) == (("PRE-ALPHA", 0), ("BETA", 1))
