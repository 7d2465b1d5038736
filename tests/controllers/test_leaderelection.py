"""Of several servers on one store one runs the controllers, and another takes over when it is gone."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, execute
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.controllers.leaderelection import LeaderElection, Timing, holder, released_lease, taken_lease
from kapi.machinery import status
from kapi.machinery.time import stamp_micros
from kapi.machinery.tree import Object
from kapi.runtime.sliced import run_by
from kapi.testing.memory_api import MemoryAPI

NAMESPACE, NAME = "kube-system", "elected"


class Recorded:
    """A controller that notes its life."""

    def __init__(self, log: list[str], who: str) -> None:
        self._log, self._who = log, who

    async def start(self) -> None:
        self._log.append(f"{self._who} starts")

    def stop(self) -> None:
        self._log.append(f"{self._who} stops")


class Unreliable:
    """The leases of a server whose requests can be made to fail, or to hang."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.fails = self.hangs = False
        self.renewing = False  # a renewal is under way: it arrives after the next read

    def resource(self, group: str, plural: str) -> Any:
        return self

    async def _ask(self, method: str, *arguments: Any) -> Any:
        if self.fails:
            raise status.StatusError(503, "ServiceUnavailable", "away")
        if self.hangs:
            await Deferred()
        return await getattr(self.real, method)(*arguments)

    async def get(self, *arguments: Any) -> Any:
        found = await self._ask("get", *arguments)
        if self.renewing:
            self.renewing = False
            await self.real.update({**found, "spec": {**found["spec"], "renewTime": stamp_micros(1e9)}}, NAMESPACE)
        return found

    async def create(self, *arguments: Any) -> Any:
        return await self._ask("create", *arguments)

    async def update(self, *arguments: Any) -> Any:
        return await self._ask("update", *arguments)


class Election(TestCase):
    async def begin(self) -> None:
        self.api = await MemoryAPI.started()
        self.leases = self.api.registry.client.resource("coordination.k8s.io", "leases")
        await self.api.registry.client.resource("", "namespaces").create({"metadata": {"name": NAMESPACE}})
        self.log: list[str] = []

    def candidate(self, who: str) -> tuple[LeaderElection, Unreliable]:
        client = Unreliable(self.leases)
        election = LeaderElection(
            client,  # type: ignore[arg-type]
            self.api.clock,
            namespace=NAMESPACE,
            lease=NAME,
            now=lambda: stamp_micros(self.api.clock.seconds()),
            make=lambda: [Recorded(self.log, who)],
            timing=Timing(15, 10, 2),
            identity=who,
        )
        self.addCleanup(election.stop)
        return election, client

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            self.api.turn(0.1)

    async def spec(self) -> Object:
        found: Object = (await self.leases.get(NAME, NAMESPACE))["spec"]
        return found

    async def test_only_one_candidate_runs_the_controllers_and_renews_its_lease(self) -> None:
        await self.begin()
        (first, _), (second, _) = self.candidate("a"), self.candidate("b")
        await first.start()
        await second.start()
        self.pass_time(1)
        renewed = (await self.spec())["renewTime"]
        self.pass_time(40)
        self.assertEqual(self.log, ["a starts"])
        spec = await self.spec()
        self.assertEqual((spec["holderIdentity"], spec["leaseTransitions"]), ("a", 0))
        self.assertGreater(spec["renewTime"], renewed)

    async def test_a_leader_whose_controllers_cannot_be_made_tries_again(self) -> None:
        await self.begin()
        election, _ = self.candidate("a")
        make, failures = election._make, [RuntimeError("not yet")]

        def unready() -> Any:
            if failures:
                raise failures.pop()
            return make()

        self.patch(election, "_make", unready)
        await election.start()
        self.pass_time(1)
        self.assertEqual((self.log, election.leading), ([], False))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.pass_time(4)
        self.assertEqual((self.log, election.leading), (["a starts"], True))

    async def test_a_leader_that_stops_hands_over_at_once(self) -> None:
        await self.begin()
        (first, _), (second, _) = self.candidate("a"), self.candidate("b")
        await first.start()
        await second.start()
        self.pass_time(1)
        await first.stop()
        self.pass_time(4)
        self.assertEqual(self.log, ["a starts", "a stops", "b starts"])
        self.assertEqual((await self.spec())["leaseTransitions"], 1)

    async def test_a_lease_is_released_although_a_renewal_was_under_way(self) -> None:
        await self.begin()
        election, client = self.candidate("a")
        await election.start()
        self.pass_time(1)
        client.renewing = True
        await election.stop()
        self.assertEqual((await self.spec())["holderIdentity"], "")

    async def test_a_leader_that_is_gone_is_replaced_when_its_lease_has_expired(self) -> None:
        await self.begin()
        (first, gone), (second, _) = self.candidate("a"), self.candidate("b")
        await first.start()
        self.pass_time(1)
        await second.start()
        gone.hangs = True
        self.pass_time(9)
        self.assertEqual(self.log, ["a starts"])
        self.pass_time(12)
        # it had given up before another one took over
        self.assertEqual(self.log, ["a starts", "a stops", "b starts"])

    async def test_a_leader_that_cannot_renew_stops_its_controllers_before_its_lease_expires(self) -> None:
        await self.begin()
        first, client = self.candidate("a")
        await first.start()
        self.pass_time(1)
        client.fails = True
        self.pass_time(13)
        self.assertEqual(self.log, ["a starts", "a stops"])
        client.fails = False
        self.pass_time(4)
        self.assertEqual(self.log, ["a starts", "a stops", "a starts"])

    async def test_a_short_outage_changes_nothing(self) -> None:
        await self.begin()
        first, client = self.candidate("a")
        await first.start()
        self.pass_time(1)
        client.fails = True
        self.pass_time(6)
        client.fails = False
        self.pass_time(6)
        self.assertEqual(self.log, ["a starts"])

    async def test_a_leader_whose_lease_somebody_took_stops_at_its_next_look(self) -> None:
        await self.begin()
        first, _ = self.candidate("a")
        await first.start()
        self.pass_time(1)
        lease = await self.leases.get(NAME, NAMESPACE)
        await self.leases.update(taken_lease(lease, "other", lease["spec"]["renewTime"], Timing()), NAMESPACE)
        self.pass_time(3)
        self.assertEqual(self.log, ["a starts", "a stops"])

    async def test_the_lease_may_be_deleted(self) -> None:
        await self.begin()
        first, _ = self.candidate("a")
        await first.start()
        self.pass_time(1)
        await self.leases.delete(NAME, NAMESPACE)
        self.pass_time(3)
        self.assertEqual(self.log, ["a starts"])
        self.assertEqual((await self.spec())["holderIdentity"], "a")

    async def test_a_stop_does_not_wait_for_a_store_that_is_away(self) -> None:
        await self.begin()
        first, client = self.candidate("a")
        await first.start()
        self.pass_time(1)
        client.hangs = True
        stopping = Deferred.fromCoroutine(first.stop())
        self.pass_time(3)
        self.assertTrue(stopping.called)
        self.assertEqual(self.log, ["a starts", "a stops"])


class Decisions(TestCase):
    def test_a_released_lease_has_no_holder(self) -> None:
        lease = {"metadata": {"name": NAME}, "spec": {"holderIdentity": "a", "leaseTransitions": 3}}
        released = released_lease(lease, "now")
        self.assertEqual(holder(released), "")
        self.assertEqual(taken_lease(released, "b", "now", Timing())["spec"]["leaseTransitions"], 4)

    def test_unsafe_periods_are_named(self) -> None:
        self.assertEqual(Timing().problems(), [])
        self.assertEqual(len(Timing(10, 10, 9).problems()), 2)
        self.assertTrue(Timing(0.5, 0.2, 0.0).problems())


class Stopping(SynchronousTestCase):
    def test_a_stop_in_the_middle_of_a_computation_leaves_no_error(self) -> None:
        """An error that nothing handles is logged when it is freed, at the latest at the end of the process."""
        asked: Deferred[None] = Deferred()
        steps = 0

        class Leases:
            def resource(self, group: str, plural: str) -> Leases:
                return self

            async def get(self, *arguments: object) -> Object:
                await asked
                raise status.StatusError(503, "ServiceUnavailable", "away")

        def in_slices(function: Callable[..., object], *arguments: object) -> Deferred[object]:
            nonlocal steps
            steps += 1
            if steps <= 3:  # the loop, its attempt, and the end of that
                return execute(function, *arguments)
            return Deferred(lambda computing: computing.errback(Failure(CancelledError())))

        reactor = Clock()
        run_by(reactor, in_slices)  # type: ignore[arg-type]
        election = LeaderElection(
            Leases(),
            reactor,
            namespace=NAMESPACE,
            lease=NAME,
            now=lambda: "",
            make=lambda: (),  # type: ignore[arg-type]
        )
        self.successResultOf(Deferred.fromCoroutine(election.start()))
        asked.callback(None)
        self.assertEqual(steps, 4)
        self.successResultOf(Deferred.fromCoroutine(election.stop()))
        del election
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])
