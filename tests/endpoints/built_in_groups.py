"""The groups of discovery over the built-in catalogue alone, without APIServices."""

from __future__ import annotations

from collections.abc import Iterable

from kapi.endpoints.discovery.groups import GroupEntry, VersionEntry, sort_versions
from kapi.resources.definition import Resource

#: groups without a place here follow by name
_GROUP_ORDER = (
    "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
    "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
    "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
)  # fmt: skip


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
