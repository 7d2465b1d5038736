"""StorageVersions: what servers tell of the versions in which they store resources."""

from __future__ import annotations

from typing import Any

from kapi.controllers.storageversions import StorageVersionController, told
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS
from kapi.testing.memory_api import MemoryAPI
from tests.controllers.served import Served

PATH = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"


class StorageVersions(Served):
    async def begin(self) -> None:
        self.api = await MemoryAPI.started(rows=(*BUILT_IN, *PREVIEWS))

    async def tell(self, server: str) -> None:
        registry = self.api.registry
        controller = StorageVersionController(
            registry.client, self.api.clock, self.api.environment.now, registry.rows, self.api.table.resources, server
        )
        await self.run_controller(controller)
        self.wait()

    def status(self, name: str) -> Object:
        found: Object = self.get(f"{PATH}/{name}")["status"]
        return found

    async def test_every_stored_resource_is_told_once(self) -> None:
        await self.begin()
        await self.tell("one")
        items = self.get(PATH)["items"]
        names = {item["metadata"]["name"] for item in items}
        self.assertEqual(len(names), len(self.api.registry.rows))
        self.assertLessEqual({"core.pods", "apps.deployments", "autoscaling.horizontalpodautoscalers"}, names)
        mine = {
            "apiServerID": "one", "encodingVersion": "autoscaling/v2", "decodableVersions": ["autoscaling/v1", "autoscaling/v2"],
        }  # fmt: skip
        status = self.status("autoscaling.horizontalpodautoscalers")
        self.assertEqual({key: status["storageVersions"][0][key] for key in mine}, mine)
        self.assertEqual(set(status["storageVersions"][0]["servedVersions"]), {"autoscaling/v1", "autoscaling/v2"})
        self.assertEqual(status["commonEncodingVersion"], "autoscaling/v2")
        self.assertEqual(self.status("core.pods")["conditions"][0]["status"], "True")
        version = self.get(PATH)["metadata"]["resourceVersion"]
        await self.tell("one")
        self.assertEqual(self.get(PATH)["metadata"]["resourceVersion"], version, "nothing has changed")

    async def test_a_second_server_stands_beside_the_first(self) -> None:
        await self.begin()
        await self.tell("one")
        await self.tell("two")
        servers = self.status("core.pods")["storageVersions"]
        self.assertEqual([server["apiServerID"] for server in servers], ["one", "two"])


def _server(name: str, version: str) -> Any:
    return {"apiServerID": name, "encodingVersion": version}


def test_servers_that_store_otherwise_have_no_common_version() -> None:
    alone = told({}, _server("one", "a/v1"), "t1")
    both = told(alone, _server("two", "a/v2"), "t2")
    assert "commonEncodingVersion" not in both
    (condition,) = both["conditions"]
    assert (condition["type"], condition["status"], condition["lastTransitionTime"]) == (
        "AllEncodingVersionsEqual", "False", "t2",
    )  # fmt: skip
    again = told(both, _server("one", "a/v2"), "t3")
    assert (again["commonEncodingVersion"], again["conditions"][0]["lastTransitionTime"]) == ("a/v2", "t3")
    assert told(again, _server("one", "a/v2"), "t4") == again


def test_a_common_version_that_moves_is_a_transition() -> None:
    moved = told(told({}, _server("one", "a/v1"), "t1"), _server("one", "a/v2"), "t2")
    assert (moved["commonEncodingVersion"], moved["conditions"][0]["lastTransitionTime"]) == ("a/v2", "t2")
