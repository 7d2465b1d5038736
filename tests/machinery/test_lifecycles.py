"""The table of lifecycles: kinds and feature gates by release."""

from __future__ import annotations

import pytest

from kapi.machinery import feature_gates
from kapi.machinery.lifecycles import (
    OLDEST,
    PRE_ALPHA,
    RELEASE,
    TABLE,
    EffectiveVersion,
    Release,
    Stage,
    deprecation,
    lifecycle,
    parse,
    stage,
    stored_version,
)
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS

NEXT = Release(RELEASE.major, RELEASE.minor + 1)
EMULATED = [OLDEST, RELEASE.before(2), RELEASE.before(1), RELEASE]
TEXT = """# a comment
release 1.7

apps/v1 Thing: since 1.5
apps/v1beta1 Thing: since 1.4, deprecated 1.6, gone 1.8, use apps/v1 Thing

Brakes: 1.5 alpha off, 1.7 beta on, 1.8 ga on locked, 1.9 gone; needs Wheels
Wheels: 1.4 deprecated off
"""


def test_lines_name_the_release_kinds_and_gates() -> None:
    table = parse(TEXT)
    assert table.release == (1, 7)
    old = table.kinds["apps", "v1beta1", "Thing"]
    assert [old.introduced, old.deprecated, old.removed, old.replacement] == [(1, 4), (1, 6), (1, 8), "apps/v1 Thing"]
    assert [old.serves(Release(1, minor)) for minor in (3, 4, 7, 8)] == [False, True, True, False]
    assert table.kinds["apps", "v1", "Thing"].serves(Release(1, 99))
    assert table.stages["Brakes"][1:] == [((1, 7), ("BETA", True, False)), ((1, 8), ("", True, True)), ((1, 9), None)]
    assert (table.stages["Wheels"], table.needs) == (
        [((1, 4), ("DEPRECATED", False, False))],
        {"Brakes": ["Wheels"]},
    )


@pytest.mark.parametrize("line", ["Brakes: 1.5 gamma on", "apps/v1 Thing: until 1.5", "Brakes: x alpha on"])
def test_other_lines_are_errors(line: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        parse(f"release 1.7\n{line}\n")


def test_a_gate_has_the_stage_of_the_release() -> None:
    assert stage("WatchList", Release(1, 33)) == Stage("BETA", False, False)
    assert stage("WatchList", Release(1, 34)) == Stage("BETA", True, False)
    assert stage("GenericWorkload", Release(1, 34)) is PRE_ALPHA
    assert stage("BtreeWatchCache", NEXT) is None


def test_a_deprecated_kind_has_the_warning_of_upstream() -> None:
    assert deprecation("storage.k8s.io", "v1beta1", "VolumeAttributesClass") == (
        "storage.k8s.io/v1beta1 VolumeAttributesClass is deprecated in v1.34+, unavailable in v1.37+; "
        "use storage.k8s.io/v1 VolumeAttributesClass",
        "1.37",
    )
    assert deprecation("", "v1", "ComponentStatus") == ("v1 ComponentStatus is deprecated in v1.19+", "")
    assert deprecation("certificates.k8s.io", "v1beta1", "ClusterTrustBundle") == ("", "")  # not before 1.37
    assert deprecation("apps", "v1", "Deployment") == ("", "")


def test_the_table_names_only_kinds_that_are_there_or_come_with_the_next_release() -> None:
    there = {(row.group, row.version, row.kind) for row in (*BUILT_IN, *PREVIEWS)}
    later = {kind for kind, found in TABLE.kinds.items() if found.introduced > RELEASE}
    assert TABLE.kinds.keys() - there == later - there
    for group, version, kind in there:
        found = lifecycle(group, version, kind)
        assert found is None or any(map(found.serves, EMULATED)), (group, version, kind)


@pytest.mark.parametrize("release", EMULATED, ids=str)
def test_the_defaults_of_each_release_are_possible(release: Release) -> None:
    assert feature_gates.problems({}, EffectiveVersion(release, OLDEST)) == []
    assert feature_gates.stages(release).keys() == feature_gates.GATES.keys()


@pytest.mark.parametrize("release", [*EMULATED, NEXT], ids=str)
def test_no_gate_is_on_by_default_without_the_gates_that_it_needs(release: Release) -> None:
    on = {gate for gate in TABLE.stages if (found := stage(gate, release)) is not None and found.default}
    assert not {gate: needed for gate in on for needed in TABLE.needs.get(gate, ()) if needed not in on}


def test_stages_are_in_the_order_of_releases() -> None:
    for gate, stages in TABLE.stages.items():
        releases = [since for since, _ in stages]
        assert releases == sorted(set(releases)), gate
        needed = TABLE.needs.get(gate, ())
        assert set(needed) <= TABLE.stages.keys(), gate


@pytest.mark.parametrize(
    ("kind", "version", "stored"),
    [
        ("admissionregistration.k8s.io MutatingAdmissionPolicy", "v1", "v1beta1"),  # v1 is as new as this release
        ("admissionregistration.k8s.io ValidatingAdmissionPolicy", "v1", "v1"),
        ("resource.k8s.io DeviceTaintRule", "v1beta2", "v1alpha3"),
        ("resource.k8s.io ResourcePoolStatusRequest", "v1alpha3", "v1alpha3"),  # there is no older version
        ("apps Deployment", "v1", "v1"),
        ("example.com Deployment", "v1", "v1"),
    ],
)
def test_kinds_are_stored_in_a_version_that_the_release_before_has(kind: str, version: str, stored: str) -> None:
    group, name = kind.split()
    assert stored_version(group, version, name) == stored


def test_three_earlier_releases_can_be_emulated_and_the_last_may_serve_beside() -> None:
    emulated, beside = EffectiveVersion()
    assert (emulated.major, emulated.minor - beside.minor, emulated.minor - OLDEST.minor) == (1, 1, 3)
