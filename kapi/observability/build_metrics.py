"""Metrics of the server's version and feature gates (upstream: component-base ``metrics/version.go``,
``metrics/prometheus/feature``, ``compatibility``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from kapi.machinery.feature_gates import stages
from kapi.machinery.lifecycles import RELEASE, EffectiveVersion
from kapi.machinery.version import VERSION

_BUILD = {
    "major": "major",
    "minor": "minor",
    "git_version": "gitVersion",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "build_date": "buildDate",
    "go_version": "goVersion",
    "compiler": "compiler",
    "platform": "platform",
}


def build_families(features: Mapping[str, bool], effective: EffectiveVersion) -> Iterator[Metric]:
    build = GaugeMetricFamily(
        "kubernetes_build_info",
        "[ALPHA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, "
        "build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
        labels=list(_BUILD),
    )
    build.add_metric([VERSION[name] for name in _BUILD.values()], 1)
    version = GaugeMetricFamily(
        "version_info",
        "[ALPHA] Provides the compatibility version info of the component.",
        labels=["component", "binary", "emulation", "min_compat"],
    )
    version.add_metric(["kube", *map(str, (RELEASE, *effective))], 1)
    gates = GaugeMetricFamily(
        "kubernetes_feature_enabled",
        "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
        labels=["name", "stage"],
    )
    for name, stage in stages(effective.emulated).items():
        gates.add_metric([name, stage.name], float(features[name]))
    yield from (build, version, gates)
