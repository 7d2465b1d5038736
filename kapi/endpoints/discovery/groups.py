"""The groups and versions that discovery shows, in order (upstream: kube-aggregator priorities of APIServices)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kapi.resources.definition import Resource

Object = dict[str, Any]

#: (order of the group, order of the version in it); smaller comes first.  Groups without a row follow by name.
_GROUP_ORDER = (
    "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
    "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
    "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
)  # fmt: skip
_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?\Z").match
_STABILITY = {"alpha": 1, "beta": 2, None: 3}


@dataclass(slots=True)
class VersionEntry:
    """One version of a group: rows of the catalogue, or the documents another server gave."""

    version: str
    resources: list[Resource] = field(default_factory=list)
    remote: list[Object] | None = None  # aggregated entries of a server that is not ours
    stale: bool = False
    made: dict[str, Any] = field(default_factory=dict, compare=False)  # what documents keep of it; it never changes


@dataclass(slots=True)
class GroupEntry:
    """A group with its versions, the preferred one first."""

    name: str
    versions: list[VersionEntry]
    priority: int = 0  # of the whole group; the highest comes first
    made: dict[str, Any] = field(default_factory=dict, compare=False)  # what documents keep of it; it never changes


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts versions by what they promise: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name.

    Larger is more stable; what is no Kubernetes version ranks below all that are.
    """
    found = _VERSION(version)
    if found is None:
        return (0, 0, 0, version)
    return (_STABILITY[found[2]], int(found[1]), int(found[3] or 0), "")


def sort_versions(versions: Iterable[str]) -> list[str]:
    """Most stable first; versions without the form of one last, by name."""
    ranked = sorted((version for version in versions if _VERSION(version)), key=version_rank, reverse=True)
    return ranked + sorted(version for version in set(versions) if not _VERSION(version))


def groups_of(resources: Iterable[Resource]) -> list[GroupEntry]:
    """The groups of catalogue rows, the core group ("") first."""
    found: dict[str, dict[str, list[Resource]]] = {}
    for row in resources:
        found.setdefault(row.group, {}).setdefault(row.version, []).append(row)
    entries = []
    for name in sorted(found, key=_group_key):
        versions = [VersionEntry(version, found[name][version]) for version in sort_versions(found[name])]
        entries.append(GroupEntry(name, versions))
    return entries


def _group_key(name: str) -> tuple[int, str]:
    if not name:
        return (-1, "")
    return (_GROUP_ORDER.index(name) if name in _GROUP_ORDER else len(_GROUP_ORDER), name)
