"""Leader election by a Lease: one leads, another follows when it must, and nobody leads without renewing."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.client.config import ConfigError
from kapi.runtime.leaderelection import LeaderElector
from kapi.testing.client import MemoryTransport, memory_client
from kapi.testing.memory_api import MemoryAPI


class LeaderElectionCase(TestCase):
    async def setUp(self) -> None:
        self.api = await MemoryAPI.started()
        client = memory_client(self.api)
        namespaces = await client.resource("ns")
        await namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
        self.log: list[str] = []
        self.transports: dict[str, MemoryTransport] = {}

    async def candidate(self, name: str) -> LeaderElector:
        transport = self.transports[name] = MemoryTransport(self.api)
        leases = (await memory_client(self.api, transport).resource("leases")).namespace("n")
        elector = LeaderElector(
            leases, "lock", name, now=self.api.clock.seconds,
            on_started=lambda: self.log.append(f"{name} leads"), on_stopped=lambda: self.log.append(f"{name} ends"),
        )  # fmt: skip
        elector.start()
        self.addCleanup(elector.stop)
        return elector

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.api.turn(1.0)

    async def test_one_leads_and_a_lease_that_is_given_back_is_taken(self) -> None:
        first, second = await self.candidate("a"), await self.candidate("b")
        self.pass_time(60)
        self.assertEqual(self.log, ["a leads"])
        self.assertEqual((first.leads, second.leads, second.leader), (True, False, "a"))
        await first.stop()
        self.pass_time(4)
        self.assertEqual(self.log, ["a leads", "a ends", "b leads"])

    async def test_a_lease_is_given_back_although_a_renewal_was_under_way(self) -> None:
        first = await self.candidate("a")
        self.pass_time(1)
        leases = (await memory_client(self.api).resource("leases")).namespace("n")
        late = await leases.get("lock")
        await leases.update({**late, "spec": {**late["spec"], "renewTime": "2030-01-01T00:00:00.000000Z"}})
        await first.stop()
        self.assertEqual((await leases.get("lock"))["spec"].get("holderIdentity", ""), "")

    async def test_a_leader_that_is_cut_off_ends_before_another_begins(self) -> None:
        await self.candidate("a")
        await self.candidate("b")
        self.pass_time(10)
        self.transports["a"].down = True
        self.pass_time(60)
        self.assertEqual(self.log, ["a leads", "a ends", "b leads"])
        self.transports["a"].down = False
        self.pass_time(60)
        self.assertEqual(self.log[3:], [])

    async def test_a_leader_whose_requests_cannot_be_made_ends_and_leads_again_when_they_can(self) -> None:
        """A credential plugin that fails raises ConfigError before anything is sent."""
        elector = await self.candidate("a")
        self.pass_time(10)
        requests = self.transports["a"].request
        self.patch(
            self.transports["a"], "request", Mock(side_effect=ConfigError("getting credentials: exec: it failed"))
        )
        self.pass_time(20)
        self.assertEqual((self.log, elector.leads), (["a leads", "a ends"], False))
        self.transports["a"].request = requests  # type: ignore[method-assign]
        self.pass_time(20)
        self.assertEqual((self.log, elector.leads), (["a leads", "a ends", "a leads"], True))

    async def test_the_end_waits_no_longer_for_the_release_than_for_a_renewal(self) -> None:
        elector = await self.candidate("a")
        self.pass_time(10)
        self.patch(self.transports["a"], "request", lambda *of, **more: Deferred())
        stopping = Deferred.fromCoroutine(elector.stop())
        self.assertEqual((self.log, stopping.called), (["a leads", "a ends"], False))
        self.pass_time(10)
        self.assertTrue(stopping.called)

    async def test_times_that_make_no_sense(self) -> None:
        leases: Any = (await memory_client(self.api).resource("leases")).namespace("n")
        with self.assertRaises(ValueError):
            LeaderElector(leases, "l", "a", on_started=int, on_stopped=int, renew_deadline=20)
