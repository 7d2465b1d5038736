"""Objects of aggregated servers own and are owned: they are listed and watched, for no cache has them."""

from __future__ import annotations

import copy
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from twisted.internet.defer import Deferred, execute
from twisted.internet.task import Clock

from kapi.controllers.events import CoreEventRecorder
from kapi.controllers.garbagecollector.controller import GarbageCollector
from kapi.controllers.garbagecollector.places import Places
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.schema import mergepatch
from tests.controllers.served import Object, Served

MAPS = "/api/v1/namespaces/n1/configmaps"


class Flunders:
    """A resource of a server that can be away."""

    resource = GroupResource("far.example.com", "flunders")
    namespaced = True

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.objects: dict[tuple[str, str], Object] = {}
        self.watchers: list[tuple[Deferred[None], Callable[[str, Object], None]]] = []
        self.away = False
        self.revision = 1

    def _check(self) -> None:
        if self.away:
            raise status.service_unavailable("nobody is there")

    def put(self, name: str, *owners: Object) -> Object:
        metadata = {"name": name, "namespace": "n1", "uid": str(uuid.uuid4()), "ownerReferences": list(owners)}
        obj = {"apiVersion": "far.example.com/v1", "kind": "Flunder", "metadata": metadata}
        self._store("ADDED", obj)
        return obj

    def _store(self, kind: str, obj: Object) -> None:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = obj
        for _, on_event in self.watchers:
            on_event(kind, copy.deepcopy(obj))

    async def get(self, name: str, namespace: str = "") -> Object:
        self._check()
        if (namespace, name) not in self.objects:
            raise status.not_found(self.resource, name)
        return copy.deepcopy(self.objects[namespace, name])

    async def pages(self) -> AsyncIterator[Object]:
        """One object a page."""
        self._check()
        revision = str(self.revision)
        for items in [[obj] for _, obj in sorted(self.objects.items())] or [[]]:
            yield {"metadata": {"resourceVersion": revision}, "items": items}

    async def patch(self, name: str, patch: Object, namespace: str = "") -> None:
        obj = await self.get(name, namespace)
        self._store("MODIFIED", mergepatch.apply(obj, patch))

    async def delete(self, name: str, namespace: str, options: Object) -> None:
        obj = await self.get(name, namespace)
        assert options["preconditions"]["uid"] == obj["metadata"]["uid"]
        self._store("DELETED", obj)

    async def watch(self, revision: str, on_event: Callable[[str, Object], None]) -> None:
        self._check()
        ended: Deferred[None] = Deferred()
        self.watchers.append((ended, on_event))
        try:
            await ended
        finally:
            self.watchers = [one for one in self.watchers if one[0] is not ended]

    def lose_watches(self) -> None:
        for ended, _ in list(self.watchers):
            ended.callback(None)


class Remotes:
    def __init__(self, flunders: Flunders) -> None:
        self.listeners: list[Callable[[], None]] = []
        self.flunders = flunders
        self.served = True

    def all(self) -> list[Any]:
        return [self.flunders] if self.served else []

    def find(self, group_version: GroupVersion, kind: str) -> Any:
        wanted = (group_version, kind) == (GroupVersion("far.example.com", "v1"), "Flunder")
        return self.flunders if self.served and wanted else None

    def of(self, resource: GroupResource) -> Any:
        return self.flunders if self.served and resource == self.flunders.resource else None

    def change(self, served: bool) -> None:
        self.served = served
        for listener in self.listeners:
            listener()


def owner(obj: Object) -> Object:
    metadata = obj["metadata"]
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": metadata["uid"]}


class Elsewhere(Served):
    async def begin(self) -> None:
        await super().begin()
        registry = self.api.registry
        self.far = Flunders(self.api.clock)
        self.remotes = Remotes(self.far)
        events = CoreEventRecorder(registry.client, GarbageCollector.name, self.api.environment.now)
        places = Places(registry, [self.api.table], registry.client, self.remotes)
        self.collector = GarbageCollector(self.api.caches, places, self.api.clock, events, execute)
        await self.run_controller(self.collector)
        self.wait()

    def make(self, name: str, *owners: Object) -> Object:
        return self.create(MAPS, {"metadata": {"name": name, "ownerReferences": list(owners)}})

    async def test_a_dependent_elsewhere_goes_with_its_owner_here(self) -> None:
        await self.begin()
        one, two = self.make("one"), self.make("two")
        self.far.put("child", owner(one))
        self.far.put("shared", owner(one), owner(two))
        self.delete(f"{MAPS}/one")
        self.wait()
        [left] = self.far.objects.values()
        self.assertEqual(left["metadata"]["ownerReferences"], [owner(two)])

    async def test_a_dependent_here_goes_with_its_owner_elsewhere(self) -> None:
        await self.begin()
        one = self.far.put("one")
        self.make("child", owner(one))
        self.wait()
        self.assertEqual(self.code(f"{MAPS}/child"), 200)
        await self.far.delete("one", "n1", {"preconditions": {"uid": one["metadata"]["uid"]}})
        self.wait()
        self.assertEqual(self.code(f"{MAPS}/child"), 404)

    async def test_what_happened_while_the_watch_was_away_is_found(self) -> None:
        await self.begin()
        gone, kept = self.far.put("gone"), self.far.put("kept")
        self.make("child", owner(gone))
        self.make("other", owner(kept))
        self.far.lose_watches()
        await self.far.delete("gone", "n1", {"preconditions": {"uid": gone["metadata"]["uid"]}})
        self.wait(5)
        self.assertEqual((self.code(f"{MAPS}/child"), self.code(f"{MAPS}/other")), (404, 200))

    async def test_nothing_is_decided_while_the_other_server_is_away(self) -> None:
        await self.begin()
        one = self.far.put("one")
        self.far.away = True
        self.far.lose_watches()
        self.make("child", owner(one))
        self.make("never", {**owner(one), "name": "never", "uid": "u"})
        self.wait(5)
        self.assertEqual((self.code(f"{MAPS}/child"), self.code(f"{MAPS}/never")), (200, 200))
        self.far.away = False
        self.wait(90)
        self.assertEqual((self.code(f"{MAPS}/child"), self.code(f"{MAPS}/never")), (200, 404))

    async def test_a_server_comes_and_goes(self) -> None:
        await self.begin()
        self.remotes.change(False)
        self.assertEqual(self.far.watchers, [])
        one = self.far.put("one")
        self.make("child", owner(one))
        del self.far.objects["n1", "one"]
        self.wait(5)
        self.assertEqual(self.code(f"{MAPS}/child"), 200)
        self.remotes.change(True)
        self.wait(5)
        self.assertEqual(len(self.far.watchers), 1)
        self.assertEqual(self.code(f"{MAPS}/child"), 404)
        self.collector.stop()
        self.assertEqual(self.far.watchers, [])
