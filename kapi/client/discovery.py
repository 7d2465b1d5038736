"""Discovery: the groups, versions and resources of a server (upstream: client-go ``discovery``).

One request each for ``/api`` and ``/apis`` if the server has aggregated discovery (KEP-3352), otherwise one per group version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import orjson
from twisted.internet.defer import Deferred

from kapi.client.errors import ClientError, StatusError, UnexpectedAnswer
from kapi.client.rest import RESTClient
from kapi.client.session import Session, base_path
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object

_AS = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_ACCEPT = f"{_AS.format('v2')},{_AS.format('v2beta1')},application/json"
STALE = "stale GroupVersion discovery"  # a version whose server is not available
_MAX_REQUESTS = 10  # at the same time


class Subresource(NamedTuple):
    """``group``, ``version`` and ``kind`` belong to its objects."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...] = ()


class APIResource(NamedTuple):
    """A resource of one version.  ``name`` is the plural."""

    group: str
    version: str
    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    subresources: tuple[Subresource, ...] = ()

    @property
    def group_version(self) -> str:
        return str(GroupVersion(self.group, self.version))

    @property
    def group_kind(self) -> str:
        """``KIND.GROUP``, as in messages."""
        return f"{self.kind}.{self.group}".rstrip(".")


class APIGroup(NamedTuple):
    """``versions`` in the server's order, the best first; ``preferred`` is one of them."""

    name: str
    versions: tuple[str, ...]
    preferred: str


class Discovered(NamedTuple):
    """Groups and resources in the server's order.  ``failed``: group versions that could not be read, and why."""

    groups: list[APIGroup]
    resources: list[APIResource]
    failed: dict[str, str]


class Discovery:
    """Discovery without a cache; ``kapi.client.discovery_cache`` has one."""

    def __init__(self, session: Session) -> None:
        self._client = RESTClient(session)

    async def discover(self) -> Discovered:
        """All groups and resources.  Raises the errors of reading the groups; those of a group version are in ``failed``."""
        found = Discovered([], [], {})
        for root in ("/api", "/apis"):
            try:
                response = await self._client.get().unlimited().abs_path(root).header("Accept", _ACCEPT).response()
            except NotFound:
                continue  # the server has no groups of this kind
            tree = _decoded(response.body, root)
            if "apidiscovery.k8s.io" in response.header(b"Content-Type"):
                _take_aggregated(found, tree)
            else:
                await self._take_legacy(found, tree, root)
        return found

    async def _take_legacy(self, found: Discovered, tree: Object, root: str) -> None:
        if root == "/api":
            versions = tuple(str(version) for version in tree.get("versions") or ())
            groups = [APIGroup("", versions, versions[0])] if versions else []
        else:
            groups = list(read_groups(tree))
        found.groups.extend(groups)
        wanted = [str(GroupVersion(group.name, version)) for group in groups for version in group.versions]
        answers: dict[str, list[APIResource]] = {}

        async def work(mine: list[str]) -> None:
            for group_version in mine:
                try:
                    data = await self._client.get().unlimited().abs_path(base_path(group_version)).do()
                    answers[group_version] = list(read_resources(data))
                except (StatusError, ClientError) as error:
                    found.failed[group_version] = getattr(error, "message", "") or str(error)

        workers = [Deferred.fromCoroutine(work(wanted[start::_MAX_REQUESTS])) for start in range(_MAX_REQUESTS)]
        for worker in workers:
            await worker
        for group_version in wanted:
            found.resources.extend(answers.get(group_version, ()))


def _decoded(data: bytes, path: str) -> Object:
    try:
        tree = orjson.loads(data)
    except ValueError:
        tree = None
    if not isinstance(tree, dict):
        raise UnexpectedAnswer(f"{path}: the answer is no JSON object")
    return tree


def _take_aggregated(found: Discovered, tree: Object) -> None:
    for item in tree.get("items") or ():
        group = item["metadata"].get("name", "")
        versions = tuple(version["version"] for version in item.get("versions") or ())
        if not versions:
            continue
        found.groups.append(APIGroup(group, versions, versions[0]))
        for version in item["versions"]:
            if version.get("freshness") == "Stale" and not version.get("resources"):
                found.failed[str(GroupVersion(group, version["version"]))] = STALE
            for resource in version.get("resources") or ():
                kind = resource.get("responseKind") or {}
                found.resources.append(
                    APIResource(
                        group,
                        version["version"],
                        resource["resource"],
                        kind.get("kind", ""),
                        resource.get("scope") == "Namespaced",
                        tuple(resource.get("verbs") or ()),
                        tuple(resource.get("shortNames") or ()),
                        tuple(resource.get("categories") or ()),
                        resource.get("singularResource") or "",
                        tuple(_aggregated_subresources(resource)),
                    )
                )


def _aggregated_subresources(resource: Object) -> Iterable[Subresource]:
    for item in resource.get("subresources") or ():
        kind = item.get("responseKind") or {}
        yield Subresource(
            item["subresource"],
            kind.get("group") or "",
            kind.get("version") or "",
            kind.get("kind") or "",
            tuple(item.get("verbs") or ()),
        )


def read_groups(tree: Object) -> Iterable[APIGroup]:
    """The groups of an APIGroupList."""
    for item in tree.get("groups") or ():
        versions = tuple(version["version"] for version in item.get("versions") or ())
        if versions:
            preferred = (item.get("preferredVersion") or {}).get("version") or versions[0]
            yield APIGroup(item.get("name") or "", versions, preferred)


def read_resources(tree: Object) -> Iterable[APIResource]:
    """The resources of an APIResourceList."""
    group, version = GroupVersion.parse(tree.get("groupVersion") or "")
    below: dict[str, list[Subresource]] = {}
    for item in tree.get("resources") or ():
        resource, slash, name = item["name"].partition("/")
        if slash:
            place = (item.get("group") or group, item.get("version") or version)
            below.setdefault(resource, []).append(
                Subresource(name, *place, item.get("kind", ""), tuple(item.get("verbs") or ()))
            )
    for item in tree.get("resources") or ():
        if "/" not in item["name"]:
            yield APIResource(
                item.get("group") or group,
                item.get("version") or version,
                item["name"],
                item.get("kind", ""),
                bool(item.get("namespaced")),
                tuple(item.get("verbs") or ()),
                tuple(item.get("shortNames") or ()),
                tuple(item.get("categories") or ()),
                item.get("singularName") or "",
                tuple(below.get(item["name"], ())),
            )


def write_groups(groups: Iterable[APIGroup]) -> Object:
    """The groups as an APIGroupList."""

    def named(group: str, version: str) -> Object:
        return {"groupVersion": str(GroupVersion(group, version)), "version": version}

    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {
                "name": group.name,
                "versions": [named(group.name, version) for version in group.versions],
                "preferredVersion": named(group.name, group.preferred),
            }
            for group in groups
        ],
    }


def write_resources(group_version: str, resources: Iterable[APIResource]) -> Object:
    """The resources as an APIResourceList."""
    items = []
    for one in resources:
        item: Object = {"name": one.name, "singularName": one.singular, "namespaced": one.namespaced}
        item |= {"group": one.group, "version": one.version, "kind": one.kind, "verbs": list(one.verbs)}
        if one.short_names:
            item["shortNames"] = list(one.short_names)
        if one.categories:
            item["categories"] = list(one.categories)
        items.append(item)
        for sub in one.subresources:
            name = f"{one.name}/{sub.name}"
            item = {
                "name": name,
                "singularName": "",
                "namespaced": one.namespaced,
                "group": sub.group,
                "version": sub.version,
            }
            items.append(item | {"kind": sub.kind, "verbs": list(sub.verbs)})
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": items}
