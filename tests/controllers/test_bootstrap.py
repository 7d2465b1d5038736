"""A new server makes its namespaces, ranges, classes and its own Service; servers on one store publish each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import TestCase

from kapi.codecs.split import encode_halves
from kapi.controllers import bootstrap
from kapi.controllers.bootstrap import BootstrapController
from kapi.controllers.serverleases import (
    LEASES,
    LIFETIME_SECONDS,
    PEER_LEASES,
    PeerEndpointController,
    ServerLeases,
)
from kapi.machinery import status, tree
from kapi.registry.allocators.services import install
from kapi.testing.memory_api import MemoryAPI
from tests.controllers.served import InMemory


class Case(InMemory):
    async def start(self) -> MemoryAPI:
        api = MemoryAPI()
        install(api.registry, ["10.0.0.0/24"], (30000, 32767))
        await api.caches.start()
        self.api = api
        return api


class Bootstrap(Case):
    def server(
        self, address: str, port: int = 6443, publishes: bool = True, seconds: Callable[[], float] | None = None
    ) -> BootstrapController:
        """``seconds`` is its monotonic clock."""
        api, clock = self.api, self.api.clock.seconds
        leases = ServerLeases(api.store, api.caches.cache(LEASES, {}, False), clock, seconds or clock)
        made = BootstrapController(
            api.registry.client,
            api.clock,
            ranges=["10.0.0.0/24"],
            address=address,
            port=port,
            now=api.environment.now,
            leases=leases,
            publishes=publishes,
        )
        return made

    def addresses(self) -> list[str]:
        client = self.api.registry.client
        endpoints = client.resource("", "endpoints").lister.get("default", "kubernetes")
        slices = client.resource("discovery.k8s.io", "endpointslices").lister.get("default", "kubernetes")
        assert endpoints is not None and slices is not None
        shown = [item["ip"] for item in endpoints["subsets"][0]["addresses"]]
        self.assertEqual([item["addresses"][0] for item in slices["endpoints"]], shown)
        return shown

    async def test_everything_is_there_after_the_start_and_nothing_changes_after_that(self) -> None:
        api = await self.start()
        server = self.server("192.0.2.1")
        await self.wait(server.start())
        client = api.registry.client
        namespaces = {item["metadata"]["name"] for item in client.resource("", "namespaces").lister.list()}
        self.assertEqual(namespaces, {"default", "kube-system", "kube-public", "kube-node-lease"})
        service = client.resource("", "services").lister.get("default", "kubernetes")
        assert service is not None
        self.assertEqual(service["spec"]["clusterIP"], "10.0.0.1")
        self.assertEqual(service["spec"]["ports"][0]["targetPort"], 6443)
        held = [item["metadata"]["name"] for item in client.resource("networking.k8s.io", "ipaddresses").lister.list()]
        self.assertEqual(held, ["10.0.0.1"])
        await self.wait(server.run_once())
        self.assertEqual(client.resource("", "services").lister.get("default", "kubernetes"), service)
        await self.wait(server.stop())

    async def test_a_server_that_does_not_publish_itself_makes_no_endpoints(self) -> None:
        api = await self.start()
        await self.wait(self.server("192.0.2.1", publishes=False).start())
        self.assertIsNotNone(api.registry.client.resource("", "services").lister.get("default", "kubernetes"))
        self.assertIsNone(api.registry.client.resource("", "endpoints").lister.get("default", "kubernetes"))

    async def test_what_somebody_took_away_comes_back(self) -> None:
        api = await self.start()
        server = self.server("192.0.2.1")
        await self.wait(server.start())
        services = api.registry.client.resource("", "services")
        await self.wait(services.delete("kubernetes", "default"))
        for _ in range(30):
            api.turn(0.5)
        self.assertIsNotNone(services.lister.get("default", "kubernetes"))
        await self.wait(server.stop())

    async def test_an_address_that_a_killed_start_has_left_is_freed(self) -> None:
        api = await self.start()
        server = self.server("192.0.2.1")
        await self.wait(server.run_once())
        client = api.registry.client
        services, addresses = client.resource("", "services"), client.resource("networking.k8s.io", "ipaddresses")
        whole = tree.copy(addresses.lister.get("", "10.0.0.1"))
        await self.wait(services.delete("kubernetes", "default"))
        parts = {"metadata": {"name": "10.0.0.1", "labels": whole["metadata"]["labels"]}, "spec": whole["spec"]}
        await self.wait(addresses.create(parts))
        with self.assertRaises(status.StatusError):  # another server may be about to write the Service
            await self.wait(server.run_once())
        self.assertIsNone(services.lister.get("default", "kubernetes"))
        api.clock.advance(6)
        await self.wait(server.run_once())
        service: Any = services.lister.get("default", "kubernetes")
        self.assertEqual(service["spec"]["clusterIP"], "10.0.0.1")
        self.assertIsNotNone(addresses.lister.get("", "10.0.0.1"))

    async def test_an_address_of_another_service_stays_its_own(self) -> None:
        api = await self.start()
        client = api.registry.client
        server = self.server("192.0.2.1")
        await self.wait(server.run_once())
        services = client.resource("", "services")
        await self.wait(services.delete("kubernetes", "default"))
        other = {"metadata": {"name": "other"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]}}
        await self.wait(services.create(other, "default"))
        api.clock.advance(60)
        with self.assertRaises(status.StatusError):
            await self.wait(server.run_once())
        self.assertIsNotNone(client.resource("networking.k8s.io", "ipaddresses").lister.get("", "10.0.0.1"))

    async def test_an_operators_change_of_the_service_stays(self) -> None:
        api = await self.start()
        await self.wait(self.server("192.0.2.1").run_once())
        services = api.registry.client.resource("", "services")
        service = tree.copy(await services.get("kubernetes", "default"))
        service["spec"]["ports"].append({"name": "other", "port": 80, "protocol": "TCP", "targetPort": 8080})
        await self.wait(services.update(service, "default"))
        await self.wait(self.server("192.0.2.1").run_once())
        found = services.lister.get("default", "kubernetes")
        assert found is not None
        self.assertEqual([port["name"] for port in found["spec"]["ports"]], ["https", "other"])

    async def test_the_labels_of_what_is_published_come_back(self) -> None:
        """Without them the Endpoints would be mirrored, and no proxy would find the slice."""
        api = await self.start()
        server = self.server("192.0.2.1")
        await self.wait(server.start())
        objects = [api.registry.client.resource("", "endpoints")]
        objects.append(api.registry.client.resource("discovery.k8s.io", "endpointslices"))
        expected = [
            ({"endpointslice.kubernetes.io/skip-mirror": "true", "mine": "m"}, {"mine": "m"}),
            ({"kubernetes.io/service-name": "kubernetes"}, None),
        ]
        for resource, (labels, others) in zip(objects, expected, strict=True):
            found = tree.copy(resource.lister.get("default", "kubernetes"))
            assert found is not None
            found["metadata"].update(labels={"mine": "m"}, annotations={"mine": "m"})
            await self.wait(resource.update(found, "default"))
            await self.wait(server.run_once())
            now = resource.lister.get("default", "kubernetes")
            assert now is not None
            self.assertEqual((now["metadata"]["labels"], now["metadata"].get("annotations")), (labels, others))
        self.assertEqual(self.addresses(), ["192.0.2.1"])
        await self.wait(server.stop())

    async def test_a_slice_of_another_address_type_is_replaced(self) -> None:
        api = await self.start()
        server = self.server("192.0.2.1")
        await self.wait(server.run_once())
        slices = api.registry.client.resource("discovery.k8s.io", "endpointslices")
        await self.wait(slices.delete("kubernetes", "default"))
        await self.wait(
            slices.create({"metadata": {"name": "kubernetes"}, "addressType": "FQDN", "endpoints": []}, "default")
        )
        await self.wait(server.run_once())
        found = slices.lister.get("default", "kubernetes")
        assert found is not None
        self.assertEqual(found["addressType"], "IPv4")
        self.assertEqual(self.addresses(), ["192.0.2.1"])

    async def test_servers_publish_all_that_live(self) -> None:
        api = await self.start()
        first, second = self.server("192.0.2.1"), self.server("192.0.2.2")
        await self.wait(first.run_once())
        await self.wait(second.run_once())
        self.assertEqual(self.addresses(), ["192.0.2.1", "192.0.2.2"])
        await self.wait(first.run_once())
        self.assertEqual(self.addresses(), ["192.0.2.1", "192.0.2.2"])
        await self.wait(second.stop())
        self.assertEqual(self.addresses(), ["192.0.2.1"])
        await self.wait(second.run_once())
        await self.wait(first.run_once())
        self.assertEqual(self.addresses(), ["192.0.2.1", "192.0.2.2"])
        for _ in range(2):
            api.turn(LIFETIME_SECONDS / 2)
            await self.wait(first.run_once())
        self.assertEqual(self.addresses(), ["192.0.2.1"])

    async def test_their_clocks_may_differ(self) -> None:
        api = await self.start()
        clock = api.clock.seconds
        servers = [
            self.server("192.0.2.1"),
            self.server("192.0.2.2", seconds=lambda: clock() + 7200),
            self.server("192.0.2.3", seconds=lambda: clock() - 7200),
        ]
        for _ in range(5):
            for server in servers:
                await self.wait(server.run_once())
            self.assertEqual(self.addresses()[-1], "192.0.2.3")
            api.turn(LIFETIME_SECONDS / 2)
        for server in servers[1:]:
            await self.wait(server.run_once())
            self.assertEqual(self.addresses(), ["192.0.2.1", "192.0.2.2", "192.0.2.3"])

    async def test_others_get_time_to_renew_after_a_pause(self) -> None:
        api = await self.start()
        paused = [0.0]
        first = self.server("192.0.2.1", seconds=lambda: api.clock.seconds() + sum(paused))
        await self.wait(self.server("192.0.2.2").run_once())
        await self.wait(first.run_once())
        paused.append(1000.0)
        await self.wait(first.run_once())
        self.assertEqual(self.addresses(), ["192.0.2.1", "192.0.2.2"])

    async def test_entries_that_this_version_does_not_understand_stop_nobody(self) -> None:
        api = await self.start()
        later = api.clock.seconds() + 1000
        wrong = (
            ("", later),
            ("somewhere", later),
            ("192.0.2.9-1", later),
            (5, later),
        )
        for number, (address, until) in enumerate(wrong):
            entry = {"kind": "MasterLease", "apiVersion": "v2", "metadata": {"name": str(number)}, "new": [1]}
            entry |= {"address": address, "until": until}
            await api.store.create(f"core/masterleases//{number}", *encode_halves(entry), expires=later)
        server = self.server("192.0.2.1")
        await self.wait(server.run_once())
        self.assertEqual(self.addresses(), ["192.0.2.1"])
        await self.wait(server.stop())

    async def test_a_process_that_ends_leaves_the_address_to_those_that_share_it(self) -> None:
        api = await self.start()
        first, second = self.server("192.0.2.1"), self.server("192.0.2.1")
        other = self.server("192.0.2.2")
        for server in (first, second, other):
            await self.wait(server.run_once())
        await self.wait(second.stop())
        self.assertEqual(self.addresses(), ["192.0.2.1", "192.0.2.2"])
        await self.wait(first.stop())
        self.assertEqual(self.addresses(), ["192.0.2.2"])
        for _ in range(2):
            api.turn(LIFETIME_SECONDS / 2)
            await self.wait(other.run_once())
        self.assertEqual(self.addresses(), ["192.0.2.2"])


class PeerEndpoints(Case):
    def leases(self, server: str, seconds: Callable[[], float] | None = None) -> ServerLeases:
        api, clock = self.api, self.api.clock.seconds
        return ServerLeases(api.store, api.caches.cache(PEER_LEASES, {}, False), clock, seconds or clock, server)

    async def test_servers_know_the_addresses_of_each_other_until_these_stop_or_fail(self) -> None:
        api = await self.start()
        observer = self.leases("")
        named = [("a", "192.0.2.1:6443"), ("a", "192.0.2.1:6443"), ("b", "[fd00::1]:6443"), ("c", "192.0.2.3:1")]
        servers = [PeerEndpointController(self.leases(name), api.clock, address) for name, address in named]
        for server in servers:
            await self.wait(server.start())
            await self.wait(server.run_once())
        self.assertEqual(observer.servers(), {"a": ["192.0.2.1:6443"], "b": ["[fd00::1]:6443"], "c": ["192.0.2.3:1"]})
        await self.wait(servers[0].stop())  # one of two processes of a machine
        await self.wait(servers[2].stop())
        self.assertEqual(sorted(observer.servers()), ["a", "c"])
        servers[3]._work.stop()  # it fails, and renews nothing any more
        for _ in range(20):
            api.turn(1)
            observer.servers()
        self.assertEqual(sorted(observer.servers()), ["a"])
        await self.wait(servers[1].stop())
        self.assertEqual(observer.servers(), {})

    async def test_entries_of_other_versions_are_no_addresses(self) -> None:
        api = await self.start()
        for number, entry in enumerate(({"server": "a"}, {"address": "192.0.2.1:1"}, {"server": 1, "address": 1})):
            halves = encode_halves({"kind": "X", "apiVersion": "v1", "metadata": {"name": str(number)}, **entry})
            await api.store.create(f"core/peerserverleases//{number}", *halves, expires=api.clock.seconds() + 1000)
        self.assertEqual(self.leases("").servers(), {})

    async def test_a_server_alone_on_its_store_tells_nobody(self) -> None:
        api = await self.start()
        alone = PeerEndpointController(None, api.clock, "192.0.2.1:6443")
        before = len(api.clock.getDelayedCalls())
        await self.wait(alone.start())
        await self.wait(alone.stop())
        self.assertEqual(len(api.clock.getDelayedCalls()), before)


class Plans(TestCase):
    def test_the_first_address_of_a_range(self) -> None:
        self.assertEqual(bootstrap.first_address("10.0.0.0/24"), "10.0.0.1")
        self.assertEqual(bootstrap.first_address("fd00::/108"), "fd00::1")

    def test_servers_of_the_other_family_are_not_published(self) -> None:
        self.assertEqual(bootstrap.served_addresses("192.0.2.1", ["fd00::1", "192.0.2.0"]), ["192.0.2.0", "192.0.2.1"])
