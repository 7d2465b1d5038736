"""Services get addresses and ports, each once, and give them back whatever becomes of the write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.trial.unittest import TestCase

from kapi.controllers.servicerepair import ServiceRepairController
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import ClusterAddresses, addresses_in_use, is_ready
from kapi.registry.allocators.allocation import AllocationError, AlreadyAllocated, NotInRange
from kapi.registry.allocators.ports import NodePorts
from kapi.registry.allocators.services import install
from kapi.resources.catalogue import BUILT_IN
from kapi.store.errors import OutcomeUnknown, StoreUnavailable
from kapi.testing.memory_api import MemoryAPI, succeed

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


def service(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def test_which_ranges_may_give_addresses() -> None:
    ready = {"type": "Ready", "status": "True"}
    for metadata, conditions, wanted in (
        ({}, None, True), ({}, [], True), ({}, [{"type": "X", "status": "False"}], True), ({}, [ready], True),
        ({}, [{**ready, "status": "False"}], False), ({}, [{**ready, "status": "Unknown"}, ready], False),
        ({"deletionTimestamp": "2024-01-01T00:00:00Z"}, [ready], False),
    ):  # fmt: skip
        assert is_ready({"metadata": metadata, "status": {"conditions": conditions}}) is wanted


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (status.StatusError("why", code=499), AllocationError, "why"),
        (status.StatusError("why", code=500), status.StatusError, "no address: why"),
        (status.AlreadyExists("why"), AlreadyAllocated, "provided IP is already allocated"),
    ],
)
def test_an_address_that_could_not_be_stored_may_be_free(error: Exception, kind: type[Exception], text: str) -> None:
    def create(obj: Object) -> Any:
        raise error

    client: Any = SimpleNamespace(resource=lambda *of: SimpleNamespace(create=create))
    with pytest.raises(kind) as caught:
        succeed(ClusterAddresses(client)._create("10.0.0.1", "IPv4", "n", "s"))
    assert (type(caught.value) is kind or kind is status.StatusError) and str(caught.value) == text
    assert getattr(caught.value, "code", 503) == 503


def test_which_ports_are_in_the_range_and_how_many_are_free() -> None:
    cache: Any = [1, 2]
    ports = NodePorts(MemoryAPI().store, lambda: cache, 30000, 30003)
    for port, within in ((29999, False), (30000, True), (30003, True), (30004, False)):
        if within:
            ports.check(port)
        else:
            with pytest.raises(NotInRange) as caught:
                ports.check(port)
            text = "provided port is not in the valid range. The range of valid ports is 30000-30003"
            assert str(caught.value) == text
    assert [(each.name.rpartition("_")[0][-9:], each.samples[0].value) for each in ports.in_use()] == [
        ("allocated", 2), ("available", 2),
    ]  # fmt: skip


class ServiceAllocation(TestCase):
    async def api(self, *cidrs: str, ports: tuple[int, int] = (30000, 30003)) -> MemoryAPI:
        cidrs = cidrs or ("10.0.0.0/28",)
        self.memory = MemoryAPI()
        self.ports = install(self.memory.registry, cidrs, ports)
        await self.memory.caches.start()
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        ranges = {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [*cidrs]}}
        self.call("POST", "/apis/networking.k8s.io/v1/servicecidrs", ranges)
        return self.memory

    def call(self, method: str, path: str, body: Any = None, expect: int = 0, type: str = "") -> Object:
        request = self.memory.ask(method, path, body, type=type)
        for _ in range(200):
            if request.finished:
                break
            self.memory.turn()
        answer: Object = orjson.loads(b"".join(request.chunks))
        if expect:
            self.assertEqual(request.code, expect, answer.get("message"))
        return answer

    def held(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.call("GET", ADDRESSES)["items"]]

    def patch(self, name: str, body: Object, expect: int = 200) -> Object:
        return self.call("PATCH", f"{SERVICES}/{name}", body, expect, "application/merge-patch+json")

    async def test_a_service_holds_its_address_by_an_ipaddress_object(self) -> None:
        await self.api()
        made = self.call("POST", SERVICES, service("a"), 201)
        ip = made["spec"]["clusterIP"]
        self.assertEqual(made["spec"]["clusterIPs"], [ip])
        self.assertEqual(self.held(), [ip])
        held = self.call("GET", f"{ADDRESSES}/{ip}")
        parent = {"resource": "services", "namespace": "default", "name": "a"}
        self.assertEqual(held["spec"]["parentRef"], parent)
        self.call("DELETE", f"{SERVICES}/a", expect=200)
        self.assertEqual(self.held(), [])

    async def test_no_two_services_get_one_address_and_the_range_runs_out(self) -> None:
        await self.api("10.0.0.0/29")
        given = [self.call("POST", SERVICES, service(f"s{i}"), 201)["spec"]["clusterIP"] for i in range(6)]
        self.assertEqual(len(set(given)), 6)
        refused = self.call("POST", SERVICES, service("late"), 500)
        self.assertIn("range is full", refused["message"])

    async def test_without_types_of_addresses_those_of_services_are_in_use(self) -> None:
        left_out = ("ipaddresses", "servicecidrs")
        for missing in (left_out, left_out[:1], left_out[1:]):
            self.memory = MemoryAPI(row for row in BUILT_IN if row.plural not in missing)
            install(self.memory.registry, ["10.0.0.0/30", "fd00::/126"], (30000, 30003))
            await self.memory.caches.start()
            self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
            given = {self.call("POST", SERVICES, service(f"s{i}"), 201)["spec"]["clusterIP"] for i in range(2)}
            self.assertEqual(given, {"10.0.0.1", "10.0.0.2"})
            self.assertIn("range is full", self.call("POST", SERVICES, service("late"), 500)["message"])
            six = self.call("POST", SERVICES, service("six", ipFamilies=["IPv6"]), 201)["spec"]
            self.assertIn(six["clusterIP"], ("fd00::1", "fd00::2", "fd00::3"))
            self.call("DELETE", f"{SERVICES}/s0", expect=200)
            self.call("POST", SERVICES, service("later"), 201)
            taken = self.call("POST", SERVICES, service("same", clusterIP="10.0.0.1"), 422)
            self.assertIn("provided IP is already allocated", taken["message"])

    async def test_the_port_of_health_checks_may_be_taken(self) -> None:
        await self.api(ports=(30000, 30001))
        local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": False}
        self.call("POST", SERVICES, service("a", **local, healthCheckNodePort=30000), 201)
        refused = self.call("POST", SERVICES, service("b", **local, healthCheckNodePort=30000), 500)
        self.assertIn("failed to allocate requested HealthCheck NodePort 30000: ", refused["message"])
        made = self.call("POST", SERVICES, service("c", **local), 201)
        self.assertEqual(made["spec"]["healthCheckNodePort"], 30001)
        refused = self.call("POST", SERVICES, service("d", **local), 500)
        self.assertIn("failed to allocate a HealthCheck NodePort 0: ", refused["message"])

    async def test_an_address_is_of_the_family_of_its_service(self) -> None:
        await self.api("10.0.0.0/29")
        ranges = {"metadata": {"name": "six"}, "spec": {"cidrs": ["fd00::/112"]}}
        self.call("POST", "/apis/networking.k8s.io/v1/servicecidrs", ranges, 201)
        given = [self.call("POST", SERVICES, service(f"s{i}"), 201)["spec"]["clusterIP"] for i in range(6)]
        self.assertEqual([ip for ip in given if not ip.startswith("10.0.0.")], [])
        refused = self.call("POST", SERVICES, service("late"), 500)
        self.assertIn("range is full", refused["message"])

    async def test_an_address_that_is_taken_or_outside_is_refused(self) -> None:
        await self.api()
        self.call("POST", SERVICES, service("a", clusterIP="10.0.0.5"), 201)
        taken = self.call("POST", SERVICES, service("b", clusterIP="10.0.0.5"), 422)
        self.assertIn("provided IP is already allocated", taken["message"])
        outside = self.call("POST", SERVICES, service("b", clusterIP="10.9.0.5"), 422)
        self.assertIn("the provided network does not match the current range", outside["message"])
        tried = self.call("POST", SERVICES + "?dryRun=All", service("b", clusterIP="10.9.0.5"), 422)
        self.assertIn(
            "the provided IP (10.9.0.5) is not in the valid range. The range of valid IPs is 10.", tried["message"]
        )
        self.assertEqual(self.held(), ["10.0.0.5"])

    async def test_a_refused_or_dry_service_leaves_nothing_behind(self) -> None:
        await self.api()
        self.call("POST", SERVICES, service("Bad_Name", type="NodePort"), 422)
        self.call("POST", SERVICES + "?dryRun=All", service("dry", type="NodePort"), 201)
        self.assertEqual(self.held(), [])
        self.assertEqual(self.ports.reserved(), {})

    async def test_a_name_that_exists_keeps_its_own_and_frees_the_second_try(self) -> None:
        await self.api()
        first = self.call("POST", SERVICES, service("a", type="NodePort"), 201)
        self.call("POST", SERVICES, service("a", type="NodePort"), 409)
        self.assertEqual(self.held(), [first["spec"]["clusterIP"]])
        self.assertEqual(list(self.ports.reserved()), [first["spec"]["ports"][0]["nodePort"]])

    async def test_node_ports_are_given_once_and_come_back(self) -> None:
        await self.api()
        names = ["a", "b", "c", "d"]
        given = {
            self.call("POST", SERVICES, service(name, type="NodePort"), 201)["spec"]["ports"][0]["nodePort"]
            for name in names
        }
        self.assertEqual(given, {30000, 30001, 30002, 30003})
        self.assertIn("range is full", self.call("POST", SERVICES, service("e", type="NodePort"))["message"])
        self.patch("a", {"spec": {"type": "ClusterIP"}})
        self.assertEqual(len(self.ports.reserved()), 3)
        self.call("DELETE", f"{SERVICES}/b", expect=200)
        self.assertEqual(len(self.ports.reserved()), 2)

    async def test_addresses_are_counted_by_range(self) -> None:
        memory = await self.api("10.0.0.0/28", "fd00::/124")
        for name, spec in (("a", {}), ("b", {}), ("c", {"ipFamilies": ["IPv6"]})):
            self.call("POST", SERVICES, service(name, **spec), 201)
        client = memory.registry.client
        cache = memory.registry.caches.cache(GroupResource("networking.k8s.io", "ipaddresses"))
        found = {
            (sample.name.split("_")[-2], sample.labels["cidr"]): sample.value
            for metric in addresses_in_use(client, cache) for sample in metric.samples
        }  # fmt: skip
        self.assertEqual(found, {
            ("allocated", "10.0.0.0/28"): 2, ("available", "10.0.0.0/28"): 12,
            ("allocated", "fd00::/124"): 1, ("available", "fd00::/124"): 14,
        })  # fmt: skip

    async def test_a_changed_node_port_frees_the_old_one(self) -> None:
        await self.api()
        self.call("POST", SERVICES, service("a", type="NodePort", ports=[{"port": 80, "nodePort": 30001}]), 201)
        self.patch("a", {"spec": {"ports": [{"port": 80, "nodePort": 30002}]}})
        self.assertEqual(list(self.ports.reserved()), [30002])
        refused = self.patch("a", {"spec": {"ports": [{"port": 80, "nodePort": 40000}]}}, 422)
        self.assertIn("provided port is not in the valid range", refused["message"])
        self.assertEqual(list(self.ports.reserved()), [30002])

    async def test_ports_that_another_process_takes_and_gives_back_meanwhile(self) -> None:
        await self.api()
        for port in (30000, 30001, 30003):
            await self.ports.allocate(port, "others")
        with patch.object(self.ports, "has", lambda port: False):
            self.call("POST", SERVICES, service("a", type="NodePort"), 201)
            self.assertIn("range is full", self.call("POST", SERVICES, service("b", type="NodePort"))["message"])
        self.assertEqual(set(self.ports.reserved()), {30000, 30001, 30002, 30003})
        store, read = self.memory.store, self.memory.store.get
        stored = await read("core/nodeportreservations//30001")
        assert stored is not None
        outdated = []

        async def get(key: str) -> Any:
            return outdated.pop() if outdated else await read(key)

        with patch.object(store, "get", get):
            for revision in (stored.revision - 1, stored.revision):  # it is another one, or gone
                outdated.append(stored._replace(revision=revision))
                await self.ports.release(30001)
                self.assertEqual((set(self.ports.reserved()), outdated), ({30000, 30002, 30003}, []))

    async def test_ports_of_one_number_share_a_node_port_unless_they_ask_for_another(self) -> None:
        await self.api()
        udp = {"name": "u", "port": 80, "protocol": "UDP"}
        for name, first, second, wanted in (
            ("a", {"nodePort": 30001}, {}, [30001, 30001]),
            ("b", {}, {"nodePort": 30002}, [30002, 30002]),
            ("c", {"nodePort": 30000}, {"nodePort": 30003}, [30000, 30003]),
        ):
            both = [{"name": "t", "port": 80, **first}, {**udp, **second}]
            made = self.call("POST", SERVICES, service(name, type="NodePort", ports=both), 201)
            self.assertEqual([port["nodePort"] for port in made["spec"]["ports"]], wanted)
        self.assertEqual(set(self.ports.reserved()), {30000, 30001, 30002, 30003})
        self.patch("c", {"spec": {"type": "ClusterIP"}})
        self.assertEqual(set(self.ports.reserved()), {30001, 30002})

    async def test_one_node_port_is_not_for_two_ports_of_one_protocol(self) -> None:
        await self.api()
        self.call("POST", SERVICES, service("a", type="NodePort", ports=[{"port": 80, "nodePort": 30001}]), 201)
        twice = [{"name": name, "port": port, "nodePort": 30001} for name, port in (("a", 80), ("b", 81))]
        self.assertEqual(self.patch("a", {"spec": {"ports": twice}}, 500)["message"], "duplicate nodePort: {TCP 30001}")
        twice[1]["protocol"] = "UDP"
        self.patch("a", {"spec": {"ports": twice}})
        self.assertEqual(list(self.ports.reserved()), [30001])

    async def test_a_load_balancer_without_node_ports(self) -> None:
        """An update gives its ports none either, and keeps those that it names."""
        await self.api()
        bare = service("a", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
        self.assertNotIn("nodePort", self.call("POST", SERVICES, bare, 201)["spec"]["ports"][0])
        changed = self.patch(
            "a", {"spec": {"ports": [{"name": "a", "port": 81}, {"name": "b", "port": 82, "nodePort": 30001}]}}
        )
        self.assertEqual([port.get("nodePort") for port in changed["spec"]["ports"]], [None, 30001])
        self.assertEqual(list(self.ports.reserved()), [30001])

    async def test_the_port_of_health_checks_is_given_back(self) -> None:
        await self.api()
        local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30002}
        self.call("POST", SERVICES, service("a", ports=[{"port": 80, "nodePort": 30001}], **local), 201)
        self.patch("a", {"spec": {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 0}})
        self.assertEqual(list(self.ports.reserved()), [30001])

    async def test_the_second_address_is_given_back(self) -> None:
        await self.api("10.0.0.0/28", "fd00::/112")
        made = self.call("POST", SERVICES, service("a", ipFamilyPolicy="RequireDualStack"), 201)
        self.assertEqual(len(self.held()), 2)
        self.patch("a", {"spec": {"ipFamilyPolicy": "SingleStack"}})
        self.assertEqual(self.held(), [made["spec"]["clusterIP"]])

    async def test_a_dry_run_takes_no_address(self) -> None:
        await self.api()
        for spec in ({}, {"clusterIP": "10.0.0.5"}):
            made = self.call("POST", f"{SERVICES}?dryRun=All", service("a", **spec), 201)
            self.assertTrue(made["spec"]["clusterIP"].startswith("10.0.0."))
            self.assertEqual(self.held(), [])

    async def test_only_ranges_that_are_ready_give_addresses(self) -> None:
        await self.api()
        for ready, code in (("False", 500), ("True", 201)):
            conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": ready}]
            path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"
            for each in conditions:
                each.update(reason="r", message="m", lastTransitionTime="2024-01-01T00:00:00Z")
            self.call(
                "PATCH", f"{path}/status", {"status": {"conditions": conditions}}, 200, "application/merge-patch+json"
            )
            self.call("POST", SERVICES, service("a"), code)

    async def test_an_external_name_gives_its_address_up_and_gets_one_again(self) -> None:
        await self.api()
        self.call("POST", SERVICES, service("a"), 201)
        away = self.patch("a", {"spec": {"type": "ExternalName", "externalName": "example.com"}})
        self.assertNotIn("clusterIP", away["spec"])
        self.assertNotIn("internalTrafficPolicy", away["spec"])
        self.assertEqual(self.held(), [])
        back = self.patch("a", {"spec": {"type": "ClusterIP", "externalName": None}})
        self.assertEqual(self.held(), [back["spec"]["clusterIP"]])

    async def test_the_cluster_ip_may_not_change(self) -> None:
        await self.api()
        made = self.call("POST", SERVICES, service("a", clusterIP="10.0.0.5"), 201)
        refused = self.patch("a", {"spec": {"clusterIP": "10.0.0.6", "clusterIPs": ["10.0.0.6"]}}, 422)
        self.assertIn("may not change once set", refused["message"])
        self.assertEqual(self.held(), [made["spec"]["clusterIP"]])

    async def test_headless_services_take_nothing(self) -> None:
        await self.api()
        made = self.call("POST", SERVICES, service("a", clusterIP="None"), 201)
        self.assertEqual(made["spec"]["clusterIPs"], ["None"])
        self.assertEqual(self.held(), [])

    async def test_a_second_family_brings_a_second_address_but_for_headless_services(self) -> None:
        await self.api("10.0.0.0/28", "fd00::/112")
        for name, address, held in (("a", "None", 0), ("b", "10.0.0.5", 2)):
            self.call("POST", SERVICES, service(name, clusterIP=address, selector={"a": "b"}), 201)
            made = self.patch(name, {"spec": {"ipFamilyPolicy": "PreferDualStack"}})
            self.assertEqual(made["spec"]["ipFamilies"], ["IPv4", "IPv6"])
            self.assertEqual(made["spec"]["clusterIPs"][:1], [address])
            self.assertEqual(len(self.held()), held)
            self.assertEqual(len(made["spec"]["clusterIPs"]), held or 1)

    async def test_a_store_that_fails_the_write_leaves_nothing_reserved(self) -> None:
        api = await self.api()
        create = api.store.create

        async def failing(key: str, head: Any, tail: Any, **more: Any) -> int:
            if "/services/" in key:
                raise StoreUnavailable("down")
            return await create(key, head, tail, **more)

        api.store.create = failing  # type: ignore[method-assign]
        self.assertGreaterEqual(self.call("POST", SERVICES, service("a", type="NodePort")).get("code", 0), 500)
        self.assertEqual(self.held(), [])
        self.assertEqual(self.ports.reserved(), {})

    async def test_a_write_of_unknown_outcome_keeps_what_it_took(self) -> None:
        """It may have been done: nobody else may get its address."""
        api = await self.api()
        create = api.store.create

        async def unknown(key: str, head: Any, tail: Any, **more: Any) -> int:
            revision = await create(key, head, tail, **more)
            if "/services/" in key:
                raise OutcomeUnknown("cut")
            return revision

        api.store.create = unknown  # type: ignore[method-assign]
        self.call("POST", SERVICES, service("a", type="NodePort"), 504)
        made = self.call("GET", f"{SERVICES}/a", expect=200)["spec"]
        self.assertEqual(
            (self.held(), list(self.ports.reserved())), (made["clusterIPs"], [made["ports"][0]["nodePort"]])
        )

    async def test_a_write_that_its_caller_gives_up_keeps_what_it_took(self) -> None:
        """A controller that stops, or whose time is over: the command is on its way to the store."""
        api = await self.api()
        create = api.store.create

        async def slow(key: str, head: Any, tail: Any, **more: Any) -> int:
            revision = await create(key, head, tail, **more)
            if "/services/" in key:
                await Deferred()
            return revision

        api.store.create = slow  # type: ignore[method-assign]
        services = api.registry.client.resource("", "services")
        writing = Deferred.fromCoroutine(services.create(service("a", type="NodePort"), "default"))
        for _ in range(5):
            api.turn()
        writing.cancel()
        self.failureResultOf(writing, CancelledError)
        made = self.call("GET", f"{SERVICES}/a", expect=200)["spec"]
        self.assertEqual(
            (self.held(), list(self.ports.reserved())), (made["clusterIPs"], [made["ports"][0]["nodePort"]])
        )

    async def test_an_update_of_unknown_outcome_keeps_what_it_took(self) -> None:
        api = await self.api()
        update = api.store.update

        async def unknown(key: str, *arguments: Any, **more: Any) -> int:
            await update(key, *arguments, **more)
            raise OutcomeUnknown("cut")

        self.call("POST", SERVICES, service("a"), 201)
        api.store.update = unknown  # type: ignore[method-assign]
        self.patch("a", {"spec": {"type": "NodePort"}}, 504)
        made = self.call("GET", f"{SERVICES}/a", expect=200)["spec"]
        self.assertEqual(list(self.ports.reserved()), [made["ports"][0]["nodePort"]])

    async def test_a_service_that_was_written_is_answered_so_though_nothing_can_be_given_back(self) -> None:
        api = await self.api()
        self.call("POST", SERVICES, service("a", type="NodePort"), 201)

        async def down(*arguments: Any, **more: Any) -> int:
            raise StoreUnavailable("down")

        api.store.get = down  # type: ignore[method-assign,assignment]
        self.patch("a", {"spec": {"type": "ClusterIP"}}, 200)
        self.assertEqual(len(self.ports.reserved()), 1)  # for the repair loop
        self.call("DELETE", f"{SERVICES}/a", expect=200)

    async def test_a_store_that_cannot_reserve_is_unavailable(self) -> None:
        """The client may try again soon, as after any other write that was not done: there is no Service."""
        for what in ("/ipaddresses/", "/nodeportreservations/"):
            for error in (StoreUnavailable("down"), OutcomeUnknown("cut")):
                api = await self.api()
                create = api.store.create

                async def failing(
                    key: str,
                    *arguments: Any,
                    what: str = what,
                    error: Exception = error,
                    create: Any = create,
                    **more: Any,
                ) -> int:
                    if what in key:
                        raise error
                    made: int = await create(key, *arguments, **more)
                    return made

                api.store.create = failing  # type: ignore[method-assign]
                refused = self.call("POST", SERVICES, service("a", type="NodePort"), 503)
                self.assertEqual(refused["details"]["retryAfterSeconds"], 1)
                self.assertEqual((self.held(), self.ports.reserved()), ([], {}))

    async def test_a_deletion_is_answered_though_the_endpoints_cannot_be_deleted(self) -> None:
        """They wait for a store that is gone meanwhile; that the Service was not deleted would be wrong."""
        api = await self.api()
        self.call("POST", SERVICES, service("a"), 201)
        endpoints = next(cache for cache in api.caches.all() if cache.resource.resource == "endpoints")
        TestCase.patch(self, endpoints, "wait_fresh", lambda: fail(StoreUnavailable("the connection was lost")))
        self.call("DELETE", f"{SERVICES}/a", expect=200)
        self.call("GET", f"{SERVICES}/a", expect=404)
        self.assertEqual(self.held(), [])

    def repair(self) -> ServiceRepairController:
        api = self.memory
        return ServiceRepairController(api.registry.client, self.ports, api.clock, api.environment.now)

    async def once(self, controller: ServiceRepairController) -> None:
        done = Deferred.fromCoroutine(controller.run_once())
        self.memory.turn()
        await done

    async def test_repair_frees_what_a_crash_left_after_a_grace(self) -> None:
        await self.api()
        await self.ports.allocate(30001, "default/gone")
        orphan = {
            "metadata": {"name": "10.0.0.9", "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "gone"}},
        }
        orphan["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"] = "IPv4"  # type: ignore[index]
        self.call("POST", ADDRESSES, orphan, 201)
        controller = self.repair()
        await self.once(controller)
        self.assertEqual((self.held(), list(self.ports.reserved())), (["10.0.0.9"], [30001]))
        self.memory.turn(61)
        await self.once(controller)
        self.assertEqual((self.held(), list(self.ports.reserved())), ([], []))
        note = "IPAddress: 10.0.0.9 for Service default/gone appears to have leaked: cleaning up"
        self.assertEqual(self.told(), [("IPAddress 10.0.0.9", "IPAddressNotAllocated", note, None)])

    async def test_repair_claims_again_what_services_use(self) -> None:
        await self.api()
        made = self.call("POST", SERVICES, service("a", type="NodePort"), 201)
        ip, port = made["spec"]["clusterIP"], made["spec"]["ports"][0]["nodePort"]
        await self.ports.release(port)
        self.call("DELETE", f"{ADDRESSES}/{ip}", expect=200)
        self.memory.turn()
        await self.once(self.repair())
        self.assertEqual((self.held(), list(self.ports.reserved())), ([ip], [port]))

    async def test_repair_tells_of_what_it_found(self) -> None:
        await self.api()
        made = self.call("POST", SERVICES, service("a", type="NodePort"), 201)
        ip, port = made["spec"]["clusterIP"], made["spec"]["ports"][0]["nodePort"]
        await self.ports.release(port)
        self.call("DELETE", f"{ADDRESSES}/{ip}", expect=200)
        controller = self.repair()
        await self.once(controller)
        told = self.told()
        self.assertEqual(
            told,
            [
                ("Service a", "ClusterIPNotAllocated", f"Cluster IP [IPv4]: {ip} is not allocated; repairing", None),
                ("Service a", "PortNotAllocated", f"Port {port} is not allocated; repairing", None),
            ],
        )
        self.memory.turn(61)
        await self.once(controller)
        self.assertEqual(self.told(), told)

    async def test_repair_restores_the_labels_of_an_address(self) -> None:
        await self.api()
        ip = self.call("POST", SERVICES, service("a"), 201)["spec"]["clusterIP"]
        made = self.call("GET", f"{ADDRESSES}/{ip}")
        labels = made["metadata"]["labels"]
        managed_by, family = "ipaddress.kubernetes.io/managed-by", "ipaddress.kubernetes.io/ip-family"
        for changed in ({}, {managed_by: "me"}, {family: "IPv6"}, {family: None}):
            other = {key: value for key, value in {**labels, **changed}.items() if changed and value}
            address = self.call("GET", f"{ADDRESSES}/{ip}")
            self.call(
                "PUT", f"{ADDRESSES}/{ip}", {**address, "metadata": {**address["metadata"], "labels": other}}, 200
            )
            await self.once(self.repair())
            repaired = self.call("GET", f"{ADDRESSES}/{ip}")
            self.assertEqual((repaired["metadata"]["labels"], repaired["spec"]), (labels, made["spec"]))
        self.assertEqual(self.told(), [])

    async def test_repair_tells_of_node_ports_that_several_services_have(self) -> None:
        await self.api()
        both = [{"name": name, "port": 53, "protocol": name.upper(), "nodePort": 30003} for name in ("tcp", "udp")]
        first = self.call("POST", SERVICES, {**service("a"), "spec": {"type": "NodePort", "ports": both}}, 201)
        controller = self.repair()
        second = {**first, "metadata": {**first["metadata"], "name": "b"}}
        checked = {**second, "metadata": {**second["metadata"], "name": "c"}}
        checked["spec"] = {**second["spec"], "ports": [], "healthCheckNodePort": 30003}

        async def listed() -> list[Object]:
            return [first, second, checked]

        controller._services.list = listed  # type: ignore[method-assign,assignment]
        await self.once(controller)
        note = "Port 30003 was assigned to multiple services; please recreate service"
        told = [news for news in self.told() if news[1].startswith("Port")]
        self.assertEqual(told, [(f"Service {name}", "PortAlreadyAllocated", note, None) for name in "bc"])

    async def test_repair_leaves_alone_what_is_out_of_range(self) -> None:
        await self.api()
        ip = self.call("POST", SERVICES, service("a"), 201)["spec"]["clusterIP"]
        self.call("DELETE", f"{ADDRESSES}/{ip}", expect=200)
        ranges = "/apis/networking.k8s.io/v1/servicecidrs"
        self.call("POST", ranges, {"metadata": {"name": "other"}, "spec": {"cidrs": ["10.9.0.0/24"]}}, 201)
        self.call("DELETE", f"{ranges}/kubernetes", expect=200)
        self.memory.turn()
        controller = self.repair()
        for _ in range(2):
            await self.once(controller)
            self.memory.turn(61)
        self.assertEqual(self.held(), [])
        note = f"Cluster IP [IPv4]: {ip} is not within any configured Service CIDR; please recreate service"
        self.assertEqual(self.told(), [("Service a", "ClusterIPOutOfRange", note, 2)])

    async def test_repair_leaves_alone_what_changed_since_it_looked(self) -> None:
        await self.api()
        ip = self.call("POST", SERVICES, service("a"), 201)["spec"]["clusterIP"]
        now = self.call("GET", f"{ADDRESSES}/{ip}")
        gone = {"parentRef": {**now["spec"]["parentRef"], "name": "gone"}}
        controller = self.repair()
        for seen in ([], [{**now, "metadata": {**now["metadata"], "uid": "older"}, "spec": gone}]):

            async def listed(seen: list[Object] = seen) -> list[Object]:
                return seen

            controller._addresses.list = listed  # type: ignore[method-assign,assignment]
            await self.once(controller)
        self.assertEqual(self.call("GET", f"{ADDRESSES}/{ip}"), now)
        self.assertEqual(self.told(), [])

    def told(self) -> list[tuple[str, str, str, int | None]]:
        events = self.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return sorted(
            (
                f"{event['regarding']['kind']} {event['regarding']['name']}",
                event["reason"],
                event["note"],
                (event.get("series") or {}).get("count"),
            )
            for event in events
        )
