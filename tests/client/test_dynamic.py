"""The dynamic client against the endpoints of an API server in memory, and discovery against answers of both kinds."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import orjson
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase
from twisted.web.http_headers import Headers

from kapi.client.discovery import Discovery
from kapi.client.discovery_cache import CachedDiscovery, cache_directory
from kapi.client.dynamic import condition_is
from kapi.client.errors import NoMatch, RequestTimeout
from kapi.client.mapper import RESTMapper
from kapi.client.session import Session
from kapi.machinery.status import Conflict, NotFound
from kapi.testing.client import MemoryTransport, memory_client
from kapi.testing.memory_api import MemoryAPI
from kapi.wire.transport import Response


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class DynamicCase(TestCase):
    async def setUp(self) -> None:
        self.api = await MemoryAPI.started()
        self.transport = MemoryTransport(self.api)
        self.client = memory_client(self.api, self.transport)
        namespaces = await self.client.resource("ns")
        await namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
        self.maps = (await self.client.resource("configmaps")).namespace("n")

    def running(self, coroutine: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(coroutine)

    async def test_every_verb(self) -> None:
        made = await self.maps.create(config_map("a", x="1"))
        self.assertEqual((await self.maps.get("a"))["data"], {"x": "1"})
        made["data"]["x"] = "2"
        changed = await self.maps.update(made)
        with self.assertRaises(Conflict):
            await self.maps.update(made)
        patched = await self.maps.patch("a", {"data": {"y": "3"}})
        self.assertEqual(patched["data"], {"x": "2", "y": "3"})
        await self.maps.patch("a", [{"op": "remove", "path": "/data/y"}], "json")
        applied = await self.maps.apply("b", config_map("b", z="1"), manager="me")
        self.assertEqual(applied["metadata"]["managedFields"][0]["manager"], "me")
        with self.assertRaises(Conflict):
            await self.maps.apply("b", config_map("b", z="2"), manager="other")
        await self.maps.apply("b", config_map("b", z="2"), manager="other", force=True)
        self.assertTrue(await self.maps.exists("b"))
        await self.maps.delete("a", {"preconditions": {"uid": changed["metadata"]["uid"]}})
        with self.assertRaises(NotFound):
            await self.maps.get("a")
        await self.maps.delete_collection()
        self.assertEqual((await self.maps.list())["items"], [])

    async def test_a_list_in_pages(self) -> None:
        for number in range(7):
            await self.maps.create(config_map(f"m{number}"))
        sizes = [len(page["items"]) async for page in self.maps.pages(limit=3)]
        self.assertEqual(sizes, [3, 3, 1])
        names = [item["metadata"]["name"] async for item in self.maps.items(limit=2)]
        self.assertEqual(names, [f"m{number}" for number in range(7)])

    async def test_names_of_resources(self) -> None:
        mapper = self.client.mapper
        for text in (
            "deploy",
            "deployment",
            "Deployments",
            "deployments.apps",
            "deployments.v1.apps",
            "deployments.app",
        ):
            found = await mapper.resource_for(text)
            self.assertEqual((found.group, found.version, found.name), ("apps", "v1", "deployments"), text)
        self.assertEqual((await mapper.resource_for("events")).group, "")
        self.assertEqual((await mapper.resource_for("ev.events.k8s.io")).group, "events.k8s.io")
        self.assertEqual((await mapper.kind_for("batch/v1", "Job")).name, "jobs")
        with self.assertRaises(NoMatch) as caught:
            await mapper.resource_for("nonsense.v1.apps")
        self.assertEqual(
            str(caught.exception), 'the server doesn\'t have a resource type "nonsense" in group "v1.apps"'
        )
        self.assertIn("pods", [one.name for one in await mapper.category("all")])

    async def test_waiting_for_an_object(self) -> None:
        waiting = self.running(self.maps.wait("a", lambda obj: obj is not None and obj["data"].get("x") == "2"))
        await self.maps.create(config_map("a", x="1"))
        self.assertNoResult(waiting)
        await self.maps.patch("a", {"data": {"x": "2"}})
        self.api.turn()
        self.assertEqual(self.successResultOf(waiting)["data"], {"x": "2"})
        gone = self.running(self.maps.wait("a", lambda obj: obj is None))
        self.transport.lose()
        self.assertNoResult(gone)
        await self.maps.delete("a")
        self.api.turn()
        self.assertIsNone(self.successResultOf(gone))
        never = self.running(self.maps.wait("a", lambda obj: obj is not None, timeout=5))
        self.api.turn(5.1)
        self.failureResultOf(never, RequestTimeout)

    def test_conditions(self) -> None:
        ready = condition_is("Ready")
        self.assertTrue(ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
        self.assertFalse(ready({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}))
        self.assertFalse(ready(None))


AGGREGATED = {
    "/api": {"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [
        {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "singularResource": "pod",
         "verbs": ["get"], "shortNames": ["po"], "categories": ["all"], "subresources": [
             {"subresource": "log", "responseKind": {"version": "v1", "kind": "Pod"}, "verbs": ["get"]}]}]}]}]},
    "/apis": {"items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [
        {"resource": "deployments", "responseKind": {"kind": "Deployment"}, "scope": "Namespaced",
         "singularResource": "deployment", "verbs": ["get"], "shortNames": ["deploy"], "subresources": [
             {"subresource": "scale", "verbs": ["get", "patch"],
              "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}]}]}]},
        {"metadata": {"name": "bad.example"}, "versions": [{"version": "v1", "freshness": "Stale"}]}]},
}  # fmt: skip
LEGACY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"version": "v1"}]},
                                                {"name": "bad.example", "versions": [{"version": "v1"}]}]},
    "/api/v1": {"groupVersion": "v1", "resources": [
        {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"],
         "shortNames": ["po"], "categories": ["all"]}, {"name": "pods/log", "kind": "Pod", "verbs": ["get"]}]},
    "/apis/apps/v1": {"groupVersion": "apps/v1", "resources": [
        {"name": "deployments", "singularName": "deployment", "namespaced": True, "kind": "Deployment",
         "verbs": ["get"], "shortNames": ["deploy"]},
        {"name": "deployments/scale", "singularName": "", "namespaced": True, "group": "autoscaling", "version": "v1",
         "kind": "Scale", "verbs": ["get", "patch"]}]},
}  # fmt: skip


class Answers:
    """A transport that answers from a table."""

    def __init__(self, table: Any, content_type: str) -> None:
        self.table, self.content_type = table, content_type
        self.asked: list[str] = []

    def request(self, method: str, target: str, headers: Any, body: Any, *, streaming: bool = False) -> Any:
        self.asked.append(target)
        tree = self.table.get(target)
        kind = Headers({"Content-Type": [self.content_type]})
        return succeed(Response(404 if tree is None else 200, kind, orjson.dumps(tree)))

    def close(self) -> Any:
        return succeed(None)


class DiscoveryCase(TestCase):
    def discovery(self, table: Any, content_type: str) -> tuple[Discovery, Answers]:
        answers = Answers(table, content_type)
        return Discovery(Session(Clock(), answers)), answers

    async def test_plural_and_singular_names_come_before_short_names(self) -> None:
        short = {"resource": "examples", "responseKind": {"kind": "Example"}, "singularResource": "example",
                 "verbs": ["get"], "shortNames": ["pod", "pods", "ex"]}  # fmt: skip
        group = {"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": [short]}]}
        table = {**AGGREGATED, "/apis": {"items": [group]}}
        found, _ = self.discovery(table, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
        warnings: list[str] = []
        mapper = RESTMapper(found, warnings.append)
        names = ("pod", "pods", "po", "ex", "pod.example.com")
        chosen = [(await mapper.resource_for(name)).name for name in names]
        self.assertEqual(chosen, ["pods", "pods", "pods", "examples", "examples"])
        self.assertEqual((await mapper.resources_for("pod"))[0].name, "pods")
        self.assertEqual(warnings, [])

    async def test_both_kinds_say_the_same(self) -> None:
        new, asked = self.discovery(AGGREGATED, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
        old, _ = self.discovery(LEGACY, "application/json")
        first, second = await new.discover(), await old.discover()
        self.assertEqual(asked.asked, ["/api", "/apis"])
        self.assertEqual(first.groups, second.groups)
        self.assertEqual(first.resources, second.resources)
        self.assertEqual([one.name for one in first.resources], ["pods", "deployments"])
        self.assertEqual(list(first.failed), ["bad.example/v1"])
        self.assertEqual(list(second.failed), ["bad.example/v1"])

    async def test_the_disk_remembers_for_six_hours(self) -> None:
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.assertEqual(cache_directory("https://[::1]:6443/x", folder).name, "x")
        table = {**AGGREGATED, "/apis": {"items": AGGREGATED["/apis"]["items"][:1]}}
        now = [0.0]

        def cached() -> tuple[CachedDiscovery, Answers]:
            discovery, answers = self.discovery(table, "application/json;g=apidiscovery.k8s.io;v=v2")
            return CachedDiscovery(discovery, folder, now=lambda: now[0]), answers

        first, asked = cached()
        found = await first.discover()
        self.assertEqual(len(asked.asked), 2)
        now[0] = (folder / "servergroups.json").stat().st_mtime
        second, asked = cached()
        self.assertEqual(await second.discover(), found)
        self.assertEqual(asked.asked, [])
        written = orjson.loads((folder / "apps" / "v1" / "serverresources.json").read_bytes())
        self.assertEqual(
            written["resources"][1], LEGACY["/apis/apps/v1"]["resources"][1], "kubectl looks for scale here"
        )
        mapper = RESTMapper(second)
        with self.assertRaises(NoMatch):
            await mapper.resource_for("widgets")
        self.assertEqual(len(asked.asked), 2, "an unknown name is looked for in what the server says now")
        with self.assertRaises(NoMatch):
            await mapper.resource_for("widgets")
        self.assertEqual(len(asked.asked), 2, "but not again and again")
        now[0] += 6 * 3600 + 1
        third, asked = cached()
        await third.discover()
        self.assertEqual(len(asked.asked), 2)
        (folder / "apps" / "v1" / "serverresources.json").write_text("{")
        now[0] = (folder / "servergroups.json").stat().st_mtime
        fourth, asked = cached()
        await fourth.discover()
        self.assertEqual(len(asked.asked), 2, "a file that cannot be read is as none")
