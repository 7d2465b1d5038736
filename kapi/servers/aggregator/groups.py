"""The groups of discovery: those served here and those of APIServices (upstream: kube-aggregator ``handler_apis.go``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kapi.endpoints.discovery.groups import GroupEntry, VersionEntry, sort_versions
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource
from kapi.servers.aggregator.registration import group_priority, service_name, version_priority


class ServedTables:
    """The resources of all servers of the chain; the last table is that of custom resources."""

    def __init__(self, tables: Sequence[ResourceTable]) -> None:
        self.tables = tables
        self.last = tables[-1]

    def groups(self) -> Iterable[str]:
        return dict.fromkeys(name for table in self.tables for name in table.groups())

    def rows(self, group: str) -> list[Resource]:
        return [row for table in self.tables for row in table.rows(group)]

    def built_in(self) -> list[GroupVersion]:
        return [gv for table in self.tables for gv in table.group_versions() if not self.is_custom(gv)]

    def custom(self) -> list[GroupVersion]:
        return [gv for gv in self.last.group_versions() if self.is_custom(gv)]

    def is_custom(self, gv: GroupVersion) -> bool:
        return any(row.typed_items and row.version == gv.version for row in self.last.rows(gv.group))


class GroupIndex:
    """The groups of discovery, each updated on its own, so that a change is cheap with hundreds of custom resources.

    ``names`` returns the groups with resources here, ``rows`` the resources of one; ``remote`` has the known resources of other
    servers, in the form of aggregated discovery.
    """

    def __init__(
        self,
        names: Callable[[], Iterable[str]],
        rows: Callable[[str], Iterable[Resource]],
        remote: Mapping[GroupVersion, list[Object]],
    ) -> None:
        self._names = names
        self._rows = rows
        self._remote = remote
        self._services: dict[str, dict[str, Object]] = {}  # group -> name -> APIService
        # None until the first use; a value None is still to be made
        self._known: dict[str, GroupEntry | None] | None = None
        self._sorted: list[GroupEntry] | None = None

    def changed(self, group: str) -> None:
        """Call it when resources of a group were added or removed, here or at another server."""
        self._sorted = None
        if self._known is not None:
            self._known[group] = None  # made on the next use

    def service(self, kind: str, obj: Object) -> None:
        """Call it with each event of an APIService; ``kind`` is the event's type."""
        group, name = obj["spec"].get("group", ""), obj["metadata"]["name"]
        if kind == "DELETED":
            self._services.get(group, {}).pop(name, None)
        else:
            self._services.setdefault(group, {})[name] = obj
        self.changed(group)

    def find(self, name: str) -> GroupEntry | None:
        """A group by its name; the core group is named ""."""
        if self._known is None:
            self._known = dict.fromkeys([*self._names(), *self._services])
        if name not in self._known:
            return None
        entry = self._known[name]
        if entry is None:
            entry = merged_group(name, self._rows(name), self._services.get(name, {}).values(), self._remote)
            if entry is None:
                del self._known[name]
            else:
                self._known[name] = entry
        return entry

    def stale(self) -> list[GroupVersion]:
        """The group versions whose resources are not known now."""
        return [
            GroupVersion(group.name, entry.version) for group in self.all() for entry in group.versions if entry.stale
        ]

    def all(self) -> list[GroupEntry]:
        """All groups by priority, each with its versions by priority."""
        if self._sorted is None:
            self.find("")
            entries = [self.find(name) for name in list(self._known or ())]
            self._sorted = sorted(
                (entry for entry in entries if entry is not None), key=lambda entry: (-entry.priority, entry.name)
            )
        return self._sorted


def merged_group(
    name: str, resources: Iterable[Resource], services: Iterable[Object], remote: Mapping[GroupVersion, list[Object]]
) -> GroupEntry | None:
    """The group of the given resources and APIServices, its versions by priority; None when it has no versions."""
    versions: dict[str, VersionEntry] = {}
    for row in resources:
        entry = versions.get(row.version)
        if entry is None:
            entry = versions[row.version] = VersionEntry(row.version)
        entry.resources.append(row)
    for entry in versions.values():  # custom resources do not add to a version that is built in
        entry.resources = [row for row in entry.resources if not row.typed_items] or entry.resources
    priorities = {version: (group_priority(name), version_priority(name, version)) for version in versions}
    names = {version: service_name(GroupVersion(name, version)) for version in versions}
    for service in services:
        spec = service["spec"]
        gv = GroupVersion(name, spec.get("version", ""))
        names[gv.version] = service["metadata"]["name"]
        priorities[gv.version] = (spec.get("groupPriorityMinimum", 0), spec.get("versionPriority", 0))
        if spec.get("service") is not None:
            known = remote.get(gv)
            versions[gv.version] = VersionEntry(gv.version, remote=known or [], stale=known is None)
        elif gv.version not in versions:
            versions[gv.version] = VersionEntry(gv.version, remote=[], stale=True, unserved=True)
    if not versions:
        return None
    ranked = sorted(sort_versions(versions), key=lambda version: -priorities[version][1])
    highest = max(minimum for minimum, _ in priorities.values())
    first = min(names[version] for version, (minimum, _) in priorities.items() if minimum == highest)
    return GroupEntry(name, [versions[version] for version in ranked], highest, first)


def from_legacy(document: Object) -> list[Object]:
    """An APIResourceList in the form of aggregated discovery."""
    found: dict[str, Object] = {}
    subresources: list[tuple[str, str, Object]] = []
    gv = GroupVersion.parse(document.get("groupVersion", ""))
    for item in elements(document, "resources"):
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
    for name, _, entry in elements(subresources):
        if name in found:
            found[name].setdefault("subresources", []).append(entry)
    return list(found.values())
