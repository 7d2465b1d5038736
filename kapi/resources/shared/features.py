"""Feature gates as validations ask for them: the request's, else the default of 1.36 (upstream: ``pkg/features``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: gates that are off by default; every other gate that a rule asks for is on
OFF_BY_DEFAULT = frozenset(
    {
        "ClusterTrustBundleProjection",
        "ContainerStopSignals",
        "CoordinatedLeaderElection",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "GenericWorkload",
        "GitRepoVolumeDriver",
        "HPAScaleToZero",
        "ImageVolumeWithDigest",
        "MaxUnavailableStatefulSet",
        "MutablePVNodeAffinity",
        "PodCertificateRequest",
        "PodLogsQuerySplitStreams",
        "SELinuxMount",
        "TaintTolerationComparisonOperators",
        "UserNamespacesHostNetworkSupport",
        "VolumeLimitScaling",
        "WorkloadWithJob",
    }
)


def enabled(features: Mapping[str, bool], name: str) -> bool:
    given = features.get(name)
    return name not in OFF_BY_DEFAULT if given is None else given


def gate(ctx: Any, name: str) -> bool:
    """The same, of a StrategyContext (or anything with ``features``); None asks for the defaults."""
    return enabled(getattr(ctx, "features", None) or {}, name)
