"""Priorities of the built-in group versions in discovery (upstream: ``pkg/controlplane/apiserver`` default priorities)."""

from __future__ import annotations

from kapi.endpoints.discovery.groups import version_rank

_GROUPS = {
    "": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
    "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
    "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
    "node.k8s.io": 16300, "discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000, "storagemigration.k8s.io": 15800,
}  # fmt: skip
_VERSIONS = {
    ("", "v1"): 1, ("autoscaling", "v2"): 30, ("resource.k8s.io", "v1"): 21, ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1beta2"): 15, ("admissionregistration.k8s.io", "v1beta1"): 12,
    ("admissionregistration.k8s.io", "v1alpha1"): 9,
}  # fmt: skip
#: priorities of the group versions of custom resources
CUSTOM_GROUP, CUSTOM_VERSION = 1000, 100
_FIRST = 20000  # apiregistration.k8s.io, which has no APIService of its own


def group_priority(group: str) -> int:
    """``groupPriorityMinimum`` of a built-in group's APIServices."""
    return _FIRST if group == "apiregistration.k8s.io" else _GROUPS.get(group, CUSTOM_GROUP)


def version_priority(group: str, version: str) -> int:
    """``versionPriority`` of a built-in group version's APIService."""
    found = _VERSIONS.get((group, version))
    if found is not None:
        return found
    stability = version_rank(version)[0]
    return {3: 15, 2: 9, 1: 1}.get(stability, 1)
