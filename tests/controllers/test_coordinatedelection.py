"""Leaders that are elected from LeaseCandidates: who is asked, who is chosen, who hands over, who is forgotten."""

from __future__ import annotations

from typing import Any

from kapi.controllers.coordinatedelection import CoordinatedElection
from kapi.machinery.feature_gates import resolve
from kapi.machinery.time import seconds_of, stamp_micros
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS
from kapi.testing.memory_api import MemoryAPI
from tests.controllers.served import Object, Served

GROUP = "/apis/coordination.k8s.io"
CANDIDATES = f"{GROUP}/v1beta1/namespaces/n1/leasecandidates"
LEASES = f"{GROUP}/v1/namespaces/n1/leases"


class Elections(Served):
    async def begin(self) -> None:
        self.api = await MemoryAPI.started(rows=(*BUILT_IN, *PREVIEWS))
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "n1"}}, 201)
        self.api.environment.features = resolve({"CoordinatedLeaderElection": True})
        clock = self.api.clock
        await self.run_controller(CoordinatedElection(self.api.registry.client, clock, clock.seconds))

    def now(self) -> str:
        return stamp_micros(self.api.clock.seconds())

    def stand(self, name: str, version: str = "1.36.0", *, emulated: str = "", **spec: Any) -> None:
        usual = {
            "leaseName": "l",
            "binaryVersion": version,
            "emulationVersion": emulated or version,
            "strategy": "OldestEmulationVersion",
            "renewTime": self.now(),
        }
        self.create(CANDIDATES, {"metadata": {"name": name}, "spec": {**usual, **spec}})

    def live(self, *names: str, seconds: int = 30) -> None:
        """For so long these answer when they are asked, as client-go: the time of the question stays."""
        for _ in range(2 * seconds):
            self.wait(0.5)
            for name in names:
                if self.asked(name):
                    self.patch(f"{CANDIDATES}/{name}", {"spec": {"renewTime": self.now()}})

    def asked(self, name: str) -> bool:
        spec = self.get(f"{CANDIDATES}/{name}")["spec"]
        return bool(spec.get("pingTime", "") > spec["renewTime"])

    def spec(self) -> Object:
        found: Object = self.get(f"{LEASES}/l")["spec"]
        return found

    def hold(self, name: str, seconds: int = 15) -> None:
        """As a leader renews."""
        self.patch(
            f"{LEASES}/l", {"spec": {"holderIdentity": name, "renewTime": self.now(), "leaseDurationSeconds": seconds}}
        )

    async def test_the_only_one_is_elected(self) -> None:
        await self.begin()
        self.stand("a")
        self.wait()
        spec = self.spec()
        self.assertEqual((spec["holderIdentity"], spec["strategy"]), ("a", "OldestEmulationVersion"))
        self.assertEqual(spec["leaseDurationSeconds"], 5)
        self.assertLess(self.api.clock.seconds() - seconds_of(spec["renewTime"]), 1.5)

    async def test_an_older_version_is_asked_for_and_gets_the_lease_when_it_is_left(self) -> None:
        await self.begin()
        self.stand("new", "1.36.0")
        self.wait()
        self.hold("new")
        self.stand("old", "1.36.0", emulated="1.35.0")
        self.wait(1)
        self.assertEqual(self.spec()["holderIdentity"], "new")
        self.assertEqual(self.spec()["preferredHolder"], "old")
        self.patch(f"{LEASES}/l", {"spec": {"holderIdentity": ""}})  # it steps down
        self.live("new", "old", seconds=8)
        self.assertEqual((self.spec()["holderIdentity"], self.spec().get("preferredHolder")), ("old", None))

    async def test_who_does_not_answer_is_not_elected(self) -> None:
        await self.begin()
        self.stand("dead", "1.35.0", renewTime=stamp_micros(self.api.clock.seconds() - 60))
        self.stand("alive", "1.36.0")
        self.wait(0.5)
        self.assertTrue(self.asked("dead"))
        self.assertEqual(self.code(f"{LEASES}/l"), 404)
        self.live("alive", seconds=20)
        self.assertEqual(self.spec()["holderIdentity"], "alive")

    async def test_a_leader_that_is_silent_loses_its_lease(self) -> None:
        await self.begin()
        self.stand("a", "1.35.0")
        self.wait()
        self.hold("a")
        self.stand("b", "1.36.0")
        self.live("b")
        self.assertEqual(self.spec()["holderIdentity"], "b")

    async def test_candidates_are_asked_before_they_expire(self) -> None:
        await self.begin()
        self.stand("a")
        self.wait()
        self.hold("a", seconds=3600)
        self.api.turn(890)
        self.wait()
        self.assertFalse(self.asked("a"))
        self.wait(15)
        self.assertTrue(self.asked("a"))
        self.live("a", seconds=8)
        self.assertFalse(self.asked("a"))
        self.assertEqual(self.spec()["holderIdentity"], "a")

    async def test_a_lease_that_its_best_candidate_lets_expire_is_not_renewed_for_it(self) -> None:
        await self.begin()
        self.stand("a")
        self.wait()
        before = self.spec()
        self.live("a", seconds=20)
        self.assertEqual(self.spec(), before)

    async def test_candidates_that_do_not_agree_elect_nobody(self) -> None:
        await self.begin()
        self.stand("a")
        self.stand("b", strategy="example.com/other")
        self.wait(2)
        held = self.code(f"{LEASES}/l") == 200
        self.assertTrue(not held or self.spec()["holderIdentity"] == "a")  # it may have been there alone for a moment

    async def test_a_strategy_of_another_controller_gets_a_lease_without_a_holder(self) -> None:
        await self.begin()
        self.stand("a", strategy="example.com/other")
        self.stand("b", strategy="example.com/other")
        self.live("a", "b")
        spec = self.spec()
        self.assertEqual((spec["strategy"], spec.get("holderIdentity")), ("example.com/other", None))
        self.hold("b")
        self.live("a", "b")
        self.assertEqual((self.spec()["holderIdentity"], self.spec().get("preferredHolder")), ("b", None))

    async def test_leases_of_others_are_left_alone(self) -> None:
        await self.begin()
        lease = self.create(LEASES, {"metadata": {"name": "other"}, "spec": {"holderIdentity": "x"}})
        self.wait(20)
        self.assertEqual(self.get(f"{LEASES}/other"), lease)

    async def test_a_candidate_without_a_word_for_half_an_hour_is_removed(self) -> None:
        await self.begin()
        self.stand("a")
        self.wait()
        self.stand("late", leaseName="m", renewTime=stamp_micros(self.api.clock.seconds() + 3000))
        self.api.turn(2000)
        self.api.turn(2000)
        self.wait()
        self.assertEqual([self.code(f"{CANDIDATES}/{name}") for name in ("a", "late")], [404, 200])
