"""A range of Service addresses is ready, and stays while addresses in it are in use."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.controllers import servicecidrs
from kapi.controllers.servicecidrs import ServiceCIDRController
from kapi.machinery.tree import Object
from kapi.registry.allocators.addresses import ip_address_of
from kapi.testing.memory_api import MemoryAPI

GROUP = "networking.k8s.io"


def service_cidr(name: str, *cidrs: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


class ServiceCIDRs(TestCase):
    async def _started(self) -> tuple[Any, Any, Any]:
        """Service CIDRs, addresses, and a way to wait for what is done with them and some seconds more."""
        api = await MemoryAPI.started()
        client = api.registry.client
        controller = ServiceCIDRController(client, api.clock, api.environment.now)
        await controller.start()
        self.addCleanup(controller.stop)

        async def wait(coroutine: Any, seconds: float = 1.0) -> None:
            done = Deferred.fromCoroutine(coroutine)
            for _ in range(10):
                api.turn(seconds / 10)
            await done

        return client.resource(GROUP, "servicecidrs"), client.resource(GROUP, "ipaddresses"), wait

    async def test_a_range_in_use_waits_for_its_addresses(self) -> None:
        ranges, addresses, wait = await self._started()
        await wait(ranges.create(service_cidr("more", "10.1.0.0/24")))
        made = ranges.lister.get("", "more")
        assert made is not None
        self.assertEqual(made["metadata"]["finalizers"], [servicecidrs.FINALIZER])
        self.assertEqual(made["status"]["conditions"][0]["status"], "True")
        await wait(addresses.create(ip_address_of("10.1.0.5", "IPv4", "default", "a")))
        await wait(ranges.delete("more"), 30.0)
        going = ranges.lister.get("", "more")
        assert going is not None
        self.assertEqual(going["status"]["conditions"][0]["reason"], "Terminating")
        await wait(addresses.delete("10.1.0.5"), 15.0)
        self.assertIsNone(ranges.lister.get("", "more"))

    async def test_a_free_range_stays_ready_until_all_servers_know(self) -> None:
        ranges, _, wait = await self._started()
        await wait(ranges.create(service_cidr("more", "10.1.0.0/24")))
        await wait(ranges.delete("more"), 5.0)
        going = ranges.lister.get("", "more")
        self.assertTrue(going["metadata"]["deletionTimestamp"])
        self.assertEqual(going["status"]["conditions"][0]["status"], "True")
        await wait(ranges.list(), 10.0)
        self.assertIsNone(ranges.lister.get("", "more"))

    async def test_of_two_ranges_with_the_same_addresses_one_may_be_deleted(self) -> None:
        ranges, addresses, wait = await self._started()
        for name in ("one", "two"):
            await wait(ranges.create(service_cidr(name, "10.1.0.0/24")))
        await wait(addresses.create(ip_address_of("10.1.0.5", "IPv4", "default", "a")))
        for name in ("one", "two"):
            await wait(ranges.delete(name), 0.1)
        await wait(ranges.list(), 30.0)
        (left,) = ranges.lister.list()
        self.assertEqual(left["status"]["conditions"][0]["reason"], "Terminating")
        await wait(addresses.delete("10.1.0.5"), 15.0)
        self.assertEqual(ranges.lister.list(), [])


class Plans(TestCase):
    def test_a_range_inside_another_may_always_go(self) -> None:
        inner, outer = service_cidr("inner", "10.1.0.0/24"), service_cidr("outer", "10.1.0.0/16")
        used = [ip_address_of("10.1.0.5", "IPv4", "default", "a")]
        self.assertTrue(servicecidrs.may_be_deleted(inner, [outer], used))
        self.assertFalse(servicecidrs.may_be_deleted(outer, [service_cidr("other", "10.2.0.0/16")], used))
        self.assertTrue(servicecidrs.may_be_deleted(outer, [inner], used))

    def test_addresses_of_other_managers_hold_nothing(self) -> None:
        foreign = {"metadata": {"name": "10.1.0.5"}, "spec": {}}
        self.assertTrue(servicecidrs.may_be_deleted(service_cidr("a", "10.1.0.0/24"), [], [foreign]))
