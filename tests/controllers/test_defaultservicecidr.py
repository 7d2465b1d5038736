"""The ServiceCIDR of the flag: it gets a second range, tells of other differences, and its condition is set once."""

from __future__ import annotations

from kapi.controllers.defaultservicecidr import DefaultServiceCIDR, service_cidr
from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI
from tests.controllers.served import InMemory

ONE, OTHER = "10.0.0.0/24", "2001:db8::/112"


class Default(InMemory):
    async def start(self, *ranges: str) -> None:
        """A server whose ServiceCIDR has these ranges."""
        self.api = MemoryAPI()
        await self.api.caches.start()
        self.ranges = self.api.registry.client.resource("networking.k8s.io", "servicecidrs")
        await self.wait(self.ranges.create(service_cidr(ranges)))

    @property
    def stored(self) -> Object:
        found = self.ranges.lister.get("", "kubernetes")
        assert found is not None
        return found

    async def reconcile(self, *ranges: str, times: int = 2) -> None:
        client = self.api.registry.client
        controller = DefaultServiceCIDR(client, client, ranges, self.api.environment.now)
        for _ in range(times):
            await self.wait(controller.reconcile(self.stored))

    def events(self) -> list[tuple[str, str]]:
        events = self.api.registry.client.resource("", "events").lister.list()
        return [(event["reason"], event["message"]) for event in events]

    def ready(self) -> list[tuple[str, str]]:
        conditions = (self.stored.get("status") or {}).get("conditions") or []
        return [(each["status"], each["message"]) for each in conditions if each["type"] == "Ready"]

    async def test_a_new_one_becomes_ready(self) -> None:
        await self.start(ONE)
        await self.reconcile(ONE)
        self.assertEqual(self.ready(), [("True", "Kubernetes default Service CIDR is ready")])
        self.assertEqual(self.events(), [])

    async def test_one_range_gets_the_second(self) -> None:
        await self.start(ONE)
        await self.reconcile(ONE, OTHER)
        self.assertEqual(self.stored["spec"]["cidrs"], [ONE, OTHER])
        self.assertEqual([state for state, _ in self.ready()], ["True"])
        self.assertEqual(self.events(), [])

    async def test_every_other_difference_stays_and_is_told_once(self) -> None:
        for stored, flag in (
            ((ONE, OTHER), (ONE,)), ((ONE, OTHER), (OTHER, ONE)), ((ONE,), (OTHER,)), ((ONE,), (OTHER, ONE)),
        ):  # fmt: skip
            with self.subTest(stored=stored, flag=flag):
                await self.start(*stored)
                await self.reconcile(*flag)
                self.assertEqual(self.stored["spec"]["cidrs"], list(stored))
                self.assertEqual(self.ready(), [])
                text = (
                    f"The default ServiceCIDR [{' '.join(stored)}] does not match the controller flag configurations "
                    f"[{' '.join(flag)}]"
                )
                self.assertEqual(self.events(), [("KubernetesDefaultServiceCIDRInconsistent", text)])

    async def test_a_condition_of_another_program_stays(self) -> None:
        await self.start(ONE)
        false = {
            "type": "Ready",
            "status": "False",
            "reason": "Broken",
            "message": "no",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await self.wait(self.ranges.apply("kubernetes", {"status": {"conditions": [false]}}, subresource="status"))
        await self.reconcile(ONE)
        self.assertEqual(self.ready(), [("False", "no")])
        self.assertEqual(self.events(), [("Broken", "Configuration matches, but no")])

    async def test_one_that_is_being_deleted_is_left_alone(self) -> None:
        await self.start(ONE)
        await self.wait(self.ranges.patch("kubernetes", {"metadata": {"finalizers": ["example.com/wait"]}}))
        await self.wait(self.ranges.delete("kubernetes"))
        await self.reconcile(ONE)
        self.assertEqual((self.ready(), self.events()), ([], []))
