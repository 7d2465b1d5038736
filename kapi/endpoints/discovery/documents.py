"""Makes discovery documents from resource definitions (upstream: apimachinery ``meta/v1`` discovery types, KEP-3352)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kapi.endpoints.discovery.groups import GroupEntry, VersionEntry
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, Subresource


def api_versions(address: str) -> Object:
    """``/api``; ``address`` is host:port as clients reach it."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group(group: GroupEntry) -> Object:
    """``/apis/<group>``"""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(group)}


def api_group_list(groups: Iterable[GroupEntry]) -> Object:
    """``/apis``"""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group_entry(group) for group in groups]}


def _group_entry(group: GroupEntry) -> Object:
    found = group.entry
    if found is None:
        found = group.entry = _make_group_entry(group)
    return found


def _make_group_entry(group: GroupEntry) -> Object:
    versions = [
        {"groupVersion": str(GroupVersion(group.name, entry.version)), "version": entry.version}
        for entry in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def api_resource_list(group: str, version: str, resources: Iterable[Resource]) -> Object:
    """``/api/v1`` and ``/apis/<group>/<version>``"""
    entries = []
    for row in sorted(resources, key=lambda row: row.plural):
        entries.append(_resource(row))
        entries.extend(_subresource(row, sub) for sub in row.subresources)
    document: Object = {"kind": "APIResourceList"}
    if group:
        document["apiVersion"] = "v1"
    return {**document, "groupVersion": str(GroupVersion(group, version)), "resources": entries}


def _resource(row: Resource) -> Object:
    entry: Object = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.storage_version_hash:
        entry["storageVersionHash"] = row.storage_version_hash
    return entry


def _subresource(row: Resource, sub: Subresource) -> Object:
    entry: Object = {"name": f"{row.plural}/{sub.name}", "singularName": "", "namespaced": row.namespaced}
    if sub.group:
        entry["group"] = sub.group
    if sub.version:
        entry["version"] = sub.version
    entry["kind"] = sub.kind or row.kind
    entry["verbs"] = list(sub.verbs)
    return entry


def aggregated_group(group: GroupEntry) -> Object:
    """One item of an APIGroupDiscoveryList."""
    metadata = {"name": group.name} if group.name else {}
    return {"metadata": metadata, "versions": [aggregated_version(entry) for entry in group.versions]}


def aggregated(groups: Iterable[GroupEntry], item: Callable[[GroupEntry], object] = aggregated_group) -> Object:
    """``/api`` and ``/apis`` as APIGroupDiscoveryList v2; ``item`` makes the entry of a group."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [item(group) for group in groups],
    }


def aggregated_version(entry: VersionEntry) -> Object:
    document: Object = {"version": entry.version}
    resources = entry.remote
    if resources is None:
        resources = [_aggregated_resource(row) for row in sorted(entry.resources, key=lambda row: row.plural)]
    if resources:
        document["resources"] = resources
    document["freshness"] = "Stale" if entry.stale else "Current"
    return document


def _response_kind(group: str, version: str, kind: str) -> Object:
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(row: Resource) -> Object:
    group, version = (row.group, row.version) if row.typed_items else ("", "")
    entry: Object = {
        "resource": row.plural,
        "responseKind": _response_kind(group, version, row.kind),
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(sub.group or group, sub.version or version, sub.kind or row.kind),
                "verbs": list(sub.verbs),
            }
            for sub in row.subresources
        ]
    return entry
