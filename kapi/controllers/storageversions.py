"""Tells in which versions this server stores, reads and serves each built-in resource (KEP-2339).

Programs that migrate stored objects read it.  Upstream: apiserver ``pkg/storageversion``; its filter that keeps writes from
resources which are not told yet is not needed: all servers on a store write the same versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from twisted.internet.interfaces import IReactorTime

from kapi.machinery import tree
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.server_id import server_id
from kapi.machinery.status import AlreadyExists
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource
from kapi.runtime.interface import Client
from kapi.runtime.persistent import Persistent, Refusals

GROUP, PLURAL = "internal.apiserver.k8s.io", "storageversions"
_TYPE = "AllEncodingVersionsEqual"


def server_versions(stored: Resource, served: Sequence[str], server: str) -> Object:
    """What a server tells of a resource; ``served`` are apiVersions."""
    encoding = str(GroupVersion(stored.storage_resource.group, stored.storage_version or stored.version))
    return {
        "apiServerID": server,
        "encodingVersion": encoding,
        "decodableVersions": sorted({encoding, *served}),
        "servedVersions": list(served),
    }


def told(status: Object, mine: Object, now: str) -> Object:
    """The status with what this server tells; the same one when it has that already."""
    servers = list(elements(status.get("storageVersions")))
    place = next((i for i, each in enumerate(servers) if each["apiServerID"] == mine["apiServerID"]), len(servers))
    servers[place : place + 1] = [mine]
    changed: Object = {**status, "storageVersions": servers}
    encodings = {each["encodingVersion"] for each in servers}
    before = changed.pop("commonEncodingVersion", None)
    if len(encodings) == 1:
        (changed["commonEncodingVersion"],) = encodings
        condition = {"status": "True", "reason": "CommonEncodingVersionSet", "message": "Common encoding version set"}
    else:
        condition = {
            "status": "False", "reason": "CommonEncodingVersionUnset", "message": "Common encoding version unset",
        }  # fmt: skip
    common = changed.get("commonEncodingVersion")
    conditions = list(elements(status.get("conditions")))
    known = next((each for each in conditions if each["type"] == _TYPE), None)
    moved = before is not None and common is not None and before != common
    if known is None or known["status"] != condition["status"] or moved:
        others = [each for each in conditions if each is not known]
        changed["conditions"] = [*others, {"type": _TYPE, **condition, "lastTransitionTime": now}]
    return changed


class StorageVersionController:
    """``stored`` has the resources that are stored, ``served`` gives all rows that are served, in each version."""

    name = "built-in-resources-storage-version-updater"

    def __init__(
        self,
        client: Client,
        reactor: IReactorTime,
        now: Callable[[], str],
        stored: Mapping[GroupResource, Resource],
        served: Callable[[], Iterable[Resource]],
        server: str = "",
    ) -> None:
        self._objects = client.resource(GROUP, PLURAL)
        self._now = now
        self._stored = stored
        self._served = served
        self._server = server or server_id()
        self._work = Persistent(self.name, self._tell_all, reactor)

    async def start(self) -> None:
        await self._work.start()

    def stop(self) -> None:
        self._work.stop()

    async def _tell_all(self) -> None:
        served: dict[GroupResource, list[str]] = {}
        for row in self._served():
            served.setdefault(row.storage_resource, []).append(str(row.group_version))
        refusals = Refusals()
        for resource, row in sorted(self._stored.items()):
            with refusals:
                mine = server_versions(row, served.get(resource, []), self._server)
                await self._tell(f"{resource.group or 'core'}.{resource.resource}", mine)
        refusals.check()

    async def _tell(self, name: str, mine: Object) -> None:
        found = self._objects.lister.get("", name)
        if found is None:
            try:
                found = await self._objects.create({"metadata": {"name": name}, "spec": {}})
            except AlreadyExists:
                found = await self._objects.get(name)
        before = found.get("status") or {}
        status = told(before, mine, self._now())
        if not tree.equal(status, before):
            await self._objects.update({**found, "status": status}, subresource="status")
