"""The groups that discovery shows: what is served here and what APIServices bring (upstream: kube-aggregator ``handler_apis.go``)."""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kapi.aggregator.priorities import group_priority, version_priority
from kapi.endpoints.discovery.groups import GroupEntry, VersionEntry, version_rank
from kapi.machinery.gvk import GroupVersion
from kapi.resources.apiregistration.apiservices import is_available
from kapi.resources.definition import Resource

Object = dict[str, Any]


def merged_groups(
    resources: Iterable[Resource],
    services: Iterable[Object],
    remote: Mapping[GroupVersion, list[Object]],
) -> list[GroupEntry]:
    """Groups by priority, each with its versions by priority.

    ``remote`` has the resources of other servers, in the form of aggregated discovery, as far as they were asked.
    """
    versions: dict[GroupVersion, VersionEntry] = {}
    priorities: dict[GroupVersion, tuple[int, int]] = {}
    for row in resources:
        gv = row.group_version
        versions.setdefault(gv, VersionEntry(gv.version)).resources.append(row)
        priorities[gv] = (group_priority(gv.group), version_priority(gv.group, gv.version))
    for service in services:
        spec = service["spec"]
        gv = GroupVersion(spec.get("group", ""), spec.get("version", ""))
        priorities[gv] = (spec.get("groupPriorityMinimum", 0), spec.get("versionPriority", 0))
        if spec.get("service") is not None:
            known = remote.get(gv)
            stale = known is None or not is_available(service)
            versions[gv] = VersionEntry(gv.version, remote=known or [], stale=stale)
        elif gv not in versions:
            versions[gv] = VersionEntry(gv.version, remote=[], stale=True)
    return _sorted(versions, priorities)


def _sorted(
    versions: Mapping[GroupVersion, VersionEntry], priorities: Mapping[GroupVersion, tuple[int, int]]
) -> list[GroupEntry]:
    by_group: dict[str, list[GroupVersion]] = {}
    for gv in versions:
        by_group.setdefault(gv.group, []).append(gv)
    order = sorted(by_group, key=lambda name: (-max(priorities[gv][0] for gv in by_group[name]), name))
    entries = []
    for name in order:
        ranked = sorted(by_group[name], key=lambda gv: (priorities[gv][1], version_rank(gv.version)), reverse=True)
        entries.append(GroupEntry(name, [versions[gv] for gv in ranked]))
    return entries


def from_legacy(document: Object) -> list[Object]:
    """An APIResourceList in the form of aggregated discovery."""
    found: dict[str, Object] = {}
    subresources: list[tuple[str, str, Object]] = []
    gv = GroupVersion.parse(document.get("groupVersion", ""))
    for item in document.get("resources") or ():
        name, slash, sub = str(item.get("name", "")).partition("/")
        kind = {
            "group": item.get("group", gv.group),
            "version": item.get("version", gv.version),
            "kind": item.get("kind", ""),
        }
        verbs = item.get("verbs") or []
        if slash:
            subresources.append((name, sub, {"subresource": sub, "responseKind": kind, "verbs": verbs}))
            continue
        entry: Object = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if item.get("namespaced") else "Cluster",
            "singularResource": item.get("singularName", ""),
            "verbs": verbs,
        }
        for key in ("shortNames", "categories"):
            if item.get(key):
                entry[key] = item[key]
        found[name] = entry
    for name, _, entry in subresources:
        if name in found:
            found[name].setdefault("subresources", []).append(entry)
    return list(found.values())
