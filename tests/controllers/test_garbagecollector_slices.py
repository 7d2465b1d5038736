"""The graph of owners when changes are large: taken in piece by piece, in order."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

from kapi.controllers.garbagecollector import controller
from kapi.controllers.garbagecollector import graph as graph_module
from kapi.machinery.tree import Object
from kapi.process.slices import Slices
from kapi.watchcache import entry
from tests.controllers.garbagecollector_case import MAPS, Case, named, owner
from tests.controllers.served import MERGE
from tests.turns import one_turn


def named_object(name: str) -> Object:
    """A ConfigMap that is not there."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "uid": f"uid-of-{name}"}}


class InSlices(Case):
    """What takes long to take in is suspended at each checkpoint, and the rest of what happens waits for it."""

    async def begin(self, *, collects: bool = True) -> None:
        patching = patch.object(entry, "LARGE", 10_000)
        patching.start()
        self.addCleanup(patching.stop)
        await super().begin(collects=False)
        self.runs = Slices(self.api.clock, length=-1.0).call
        if collects:
            await self.collect()
            self.settle()

    def absent(self) -> list[Object]:
        return [owner(named_object(f"absent{number}")) for number in range(100)]

    def large(self, name: str, *owners: Object) -> Object:
        return self.make(name, *owners, *self.absent())

    def turns_until(self, condition: Callable[[], bool]) -> int:
        """How many turns it takes."""
        for turns in range(2000):
            if condition():
                return turns
            one_turn(self.api.clock)
        self.fail("it does not come")

    async def test_a_change_behind_a_large_one_waits_for_it(self) -> None:
        await self.begin()
        graph = self.collector.graph
        one = self.make("one")
        self.settle()
        uid = one["metadata"]["uid"]
        large = self.api.ask("POST", MAPS, named("large", owner(one), *self.absent()))
        self.turns_until(lambda: bool(self.collector._order))
        small = self.api.ask("POST", MAPS, named("small", owner(one)))
        turns = self.turns_until(lambda: bool(graph.dependents(uid)))
        self.assertEqual([node.name for node in graph.dependents(uid)], ["large"])
        turns += self.turns_until(lambda: len(graph.dependents(uid)) == 2)
        self.assertGreater(turns, 5, "with a checkpoint after some references")
        self.assertTrue(large.finished and small.finished)
        self.settle()
        self.assertEqual(len(self.metadata("large")["ownerReferences"]), 1, "the absent ones")

    async def test_owners_that_never_were(self) -> None:
        await self.begin()
        self.large("large")
        self.settle()
        self.assertEqual(self.names(), [])
        self.assertFalse(self.collector.graph)

    async def test_what_goes_while_it_is_taken_in_leaves_nothing_behind(self) -> None:
        await self.begin()
        one = self.make("one")
        self.large("large", owner(one))
        self.delete("large")
        self.settle()
        self.assertEqual(self.names(), ["one"])
        self.assertFalse(self.collector.graph)
        self.assertEqual(self.collector.graph.dependents(one["metadata"]["uid"]), [])

    async def test_what_is_made_again_while_it_is_taken_in_is_another(self) -> None:
        await self.begin()
        one = self.make("one")
        self.large("dependent", owner(one))
        self.delete("dependent")
        again = self.make("dependent", owner(one))
        self.settle()
        self.assertEqual(list(self.collector.graph.nodes), [again["metadata"]["uid"]])
        self.delete("one")
        self.settle()
        self.assertEqual(self.names(), [])

    async def test_an_owner_that_is_made_again_is_another(self) -> None:
        await self.begin()
        self.large("dependent", owner(self.make("one")))
        self.delete("one")
        self.make("one")
        self.settle()
        self.assertEqual(self.names(), ["one"])

    async def test_an_owner_that_waits_for_its_dependents_waits_for_a_large_one(self) -> None:
        await self.begin()
        one = self.make("one")
        large = self.large("large", owner(one, blocks=True))
        self.call("PATCH", f"{MAPS}/large", {"metadata": {"finalizers": ["example.com/mine"]}}, 200, MERGE)
        self.delete("one", "Foreground")
        self.settle()
        self.assertEqual(self.names(), ["large", "one"])
        self.assertEqual(self.metadata("large")["uid"], large["metadata"]["uid"])
        self.call("PATCH", f"{MAPS}/large", {"metadata": {"finalizers": None}}, 200, MERGE)
        self.settle()
        self.assertEqual(self.names(), [])

    async def test_a_large_dependent_stays_when_its_owner_leaves_it(self) -> None:
        await self.begin()
        one, two = self.make("one"), self.make("two")
        self.large("large", owner(one), owner(two))
        self.delete("one", "Orphan")
        self.settle()
        self.assertEqual(self.names(), ["large", "two"])
        self.assertEqual([one["name"] for one in self.metadata("large")["ownerReferences"]], ["two"])

    async def test_the_end_of_an_owner_of_many_is_a_long_one(self) -> None:
        await self.begin()
        with patch.object(graph_module, "_MAX_DEPENDENTS_AT_ONCE", 5):
            reference = owner(self.make("one"))
            for number in range(40):
                self.make(f"d{number}", reference)
            self.settle()
            request = self.api.ask("DELETE", f"{MAPS}/one?propagationPolicy=Background")
            self.turns_until(lambda: request.finished)
            turns = self.turns_until(lambda: self.collector.graph.gone(reference["uid"]))
            turns = self.turns_until(lambda: not self.collector._order)
            self.assertGreater(turns, 2)
            self.settle()
        self.assertEqual(self.names(), [])

    async def test_what_was_there_before(self) -> None:
        await self.begin(collects=False)
        two = self.make("two")
        self.large("large")
        self.large("kept", owner(two))
        await self.collect()
        self.settle()
        self.assertEqual(self.names(), ["kept", "two"])

    async def test_of_too_much_that_waits_the_rest_is_read_again(self) -> None:
        await self.begin()
        with patch.object(controller, "_MAX_WAITING", 3):
            one = self.make("one")
            for number in range(4):
                self.large(f"l{number}", owner(one))
            self.make("small", owner(one))
            self.delete("l0")
            self.settle()
        self.assertEqual(self.names(), ["l1", "l2", "l3", "one", "small"])
        self.assertEqual(len(self.collector.graph.nodes), 4)
        self.delete("one")
        self.settle()
        self.assertEqual(self.names(), [])
