"""The Leases that tell which API servers there are."""

from __future__ import annotations

from typing import Any

from kapi.controllers.identity import IdentityController
from kapi.machinery.server_id import server_id
from kapi.testing.memory_api import MemoryAPI
from tests.controllers.served import InMemory

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Identity(InMemory):
    async def start(self) -> IdentityController:
        self.api = MemoryAPI()
        await self.api.caches.start()
        return self.server()

    def server(self) -> IdentityController:
        return IdentityController(self.api.registry.client, self.api.clock, self.api.clock.seconds, "host")

    def lease(self, name: str = "") -> Any:
        return self.api.ask("GET", f"{LEASES}/{name or server_id('host')}")

    async def test_a_server_has_a_lease_and_renews_it(self) -> None:
        made = await self.start()
        await self.wait(made.start())
        self.api.turn()
        first = self.lease().json
        self.assertRegex(first["metadata"]["name"], r"^apiserver-[a-z2-7]{26}$")
        labels = {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "host"}
        self.assertEqual(first["metadata"]["labels"], labels)
        self.assertEqual(first["spec"]["leaseDurationSeconds"], 3600)
        self.assertTrue(first["spec"]["holderIdentity"].startswith(first["metadata"]["name"] + "_"))
        self.api.turn(10.1)
        self.api.turn()
        renewed = self.lease().json["spec"]
        self.assertGreater(renewed["renewTime"], first["spec"]["renewTime"])
        self.assertEqual(set(renewed), {"holderIdentity", "leaseDurationSeconds", "renewTime"})
        await self.wait(made.stop())
        self.api.turn(30)
        self.assertEqual(self.lease().code, 404)

    async def test_a_lease_of_an_earlier_process_is_replaced(self) -> None:
        await self.wait((await self.start()).start())
        self.api.turn()
        first = self.lease().json
        await self.wait(self.server().start())
        self.api.turn()
        second = self.lease().json
        self.assertNotEqual(second["metadata"]["uid"], first["metadata"]["uid"])
        self.assertNotEqual(second["spec"]["holderIdentity"], first["spec"]["holderIdentity"])

    async def test_what_others_change_in_the_lease(self) -> None:
        made = await self.start()
        await self.wait(made.start())
        self.api.turn()
        lease = self.lease().json
        labels = lease["metadata"]["labels"]
        lease["metadata"]["labels"] = {"mine": "m"}
        lease["spec"].update(holderIdentity="me", leaseDurationSeconds=1)
        self.assertEqual(self.api.ask("PUT", f"{LEASES}/{lease['metadata']['name']}", lease).code, 200)
        self.api.turn(10.1)
        self.api.turn()
        now = self.lease().json
        self.assertEqual(now["metadata"]["labels"], {**labels, "mine": "m"})
        self.assertEqual((now["spec"]["holderIdentity"], now["spec"]["leaseDurationSeconds"]), ("me", 3600))
        path = f"{LEASES}/{lease['metadata']['name']}"
        self.assertEqual(self.api.ask("DELETE", path).code, 200)
        self.api.turn(10.1)
        self.api.turn()
        self.assertEqual(self.lease().json["metadata"]["labels"], labels)

    async def test_leases_of_servers_that_are_gone_are_removed(self) -> None:
        made = await self.start()
        label = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
        spec = {"holderIdentity": "x", "leaseDurationSeconds": 3600, "renewTime": "2001-01-01T00:00:00.000000Z"}
        for name, labels in (("gone", label), ("others", {})):
            body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
            self.assertEqual(self.api.ask("POST", LEASES, body).code, 201)
        self.api.turn()
        await self.wait(made.run_once())
        self.assertEqual([self.lease(name).code for name in ("gone", "others", "")], [404, 200, 200])

    def test_the_name_of_a_server_is_that_which_upstream_gives_to_its_host(self) -> None:
        self.assertEqual(server_id("vm"), "apiserver-wlv32tlttr4jl3gtroqexyxapa")
        self.assertNotEqual(server_id("vm"), server_id("vm2"))
