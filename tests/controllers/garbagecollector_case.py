"""A garbage collector beside a server in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import execute

from kapi.controllers.events import CoreEventRecorder
from kapi.controllers.garbagecollector.controller import GarbageCollector
from kapi.controllers.garbagecollector.places import Places
from kapi.machinery.tree import Object
from kapi.process.driver import Call
from kapi.resources.catalogue import BUILT_IN
from kapi.servers.apiextensions.serving import CustomResources
from kapi.testing.memory_api import MemoryAPI
from tests.controllers.served import Asking

MAPS = "/api/v1/namespaces/n1/configmaps"


def owner(obj: Object, *, blocks: bool | None = None, **other: Any) -> Object:
    """A reference to an object."""
    reference = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        **other,
    }
    return reference if blocks is None else {**reference, "blockOwnerDeletion": blocks}


def named(name: str, *owners: Object, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **({"ownerReferences": list(owners)} if owners else {}), **metadata}}


class Case(Asking):
    """A server with a garbage collector, and the namespaces n1 and n2."""

    runs: Call = staticmethod(execute)

    async def begin(self, *, collects: bool = True) -> None:
        self.api = await MemoryAPI.started()
        self.calls: list[str] = []
        registry, table, clock = self.api.registry, self.api.table, self.api.clock
        custom = CustomResources(registry, table, registry.client, clock, BUILT_IN)
        await custom.start()
        self.addCleanup(custom.stop)
        for name in ("n1", "n2"):
            self.call("POST", "/api/v1/namespaces", named(name), 201)
        if collects:
            await self.collect()

    async def collect(self) -> GarbageCollector:
        registry = self.api.registry

        events = CoreEventRecorder(registry.client, GarbageCollector.name, self.api.environment.now)
        places = Places(registry, [self.api.table], registry.client)
        self.collector = GarbageCollector(self.api.caches, places, self.api.clock, events, self.runs)
        await self.collector.start()
        self.addCleanup(self.collector.stop)
        return self.collector

    def make(self, name: str, *owners: Object, path: str = MAPS, **metadata: Any) -> Object:
        return self.call("POST", path, named(name, *owners, **metadata), 201)

    def settle(self, seconds: float = 3.0) -> None:
        for _ in range(int(seconds * 20)):
            self.api.turn(0.05)
        self.assertTrue(self.collector.idle)

    def names(self, path: str = MAPS) -> list[str]:
        return [item["metadata"]["name"] for item in self.call("GET", path, expect=200)["items"]]

    def delete(self, name: str, propagation: str = "Background", path: str = MAPS) -> Object:
        return self.call("DELETE", f"{path}/{name}?propagationPolicy={propagation}", expect=200)

    def metadata(self, name: str, path: str = MAPS) -> Object:
        metadata: Object = self.call("GET", f"{path}/{name}", expect=200)["metadata"]
        return metadata
