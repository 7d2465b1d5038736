"""Dependents go with their owners, as the deletion asks: in the background, in the foreground, or not at all."""

from __future__ import annotations

import orjson

from kapi.machinery.tree import Object
from tests.controllers.garbagecollector_case import MAPS, Case, named, owner
from tests.controllers.served import MERGE

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(plural: str, kind: str, *, scope: str = "Namespaced") -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


class Background(Case):
    async def test_dependents_of_dependents_go_after_their_owner(self) -> None:
        await self.begin()
        child = self.make("child", owner(self.make("owner")))
        self.make("grandchild", owner(child))
        self.make("stranger")
        self.settle()
        self.assertEqual(self.names(), ["child", "grandchild", "owner", "stranger"])
        self.delete("owner")
        self.settle()
        self.assertEqual(self.names(), ["stranger"])

    async def test_a_thousand_dependents(self) -> None:
        await self.begin()
        reference = owner(self.make("owner"))
        for number in range(1000):
            self.make(f"d{number}", reference)
        self.delete("owner")
        self.settle(5)
        self.assertEqual(self.names(), [])
        self.assertFalse(self.collector.graph)

    async def test_with_another_owner_left_only_the_reference_goes(self) -> None:
        await self.begin()
        one, two = self.make("one"), self.make("two")
        self.make("child", owner(one), owner(two, controller=True))
        self.delete("one")
        self.settle()
        self.assertEqual(self.metadata("child")["ownerReferences"], [owner(two, controller=True)])
        self.delete("two")
        self.settle()
        self.assertEqual(self.names(), [])

    async def test_an_owner_that_never_was_is_absent(self) -> None:
        await self.begin()
        self.make("child", owner(self.make("owner"), uid="11111111-1111-1111-1111-111111111111"))
        self.make("other", owner(self.make("gone"), name="never"))
        self.settle()
        self.assertEqual(self.names(), ["gone", "owner"])

    async def test_an_owner_that_was_made_again_is_another_one(self) -> None:
        await self.begin()
        self.make("child", owner(self.make("owner")))
        self.settle()
        self.call("DELETE", f"{MAPS}/owner", expect=200)
        self.make("owner")
        self.settle()
        self.assertEqual(self.names(), ["owner"])

    async def test_a_dependent_that_was_made_again_without_owners_stays(self) -> None:
        await self.begin()
        self.make("child", owner(self.make("owner")))
        self.settle()
        self.call("DELETE", f"{MAPS}/owner", expect=200)
        self.call("DELETE", f"{MAPS}/child", expect=200)
        self.make("child")
        self.settle()
        self.assertEqual(self.names(), ["child"])

    async def test_references_that_were_taken_away_count_no_more(self) -> None:
        await self.begin()
        self.make("child", owner(self.make("owner")))
        self.call("PATCH", f"{MAPS}/child", {"metadata": {"ownerReferences": None}}, 200, MERGE)
        self.delete("owner")
        self.settle()
        self.assertEqual(self.names(), ["child"])

    async def test_what_was_there_before_the_collector_is_collected(self) -> None:
        await self.begin(collects=False)
        self.make("child", owner(self.make("owner")))
        self.make("kept", owner(self.make("stays")))
        self.delete("owner")
        self.assertEqual(self.names(), ["child", "kept", "stays"])
        await self.collect()
        self.settle()
        self.assertEqual(self.names(), ["kept", "stays"])

    async def test_a_circle_goes_with_the_first_of_it(self) -> None:
        await self.begin()
        one = self.make("one")
        two = self.make("two", owner(one))
        self.call("PATCH", f"{MAPS}/one", {"metadata": {"ownerReferences": [owner(two)]}}, 200, MERGE)
        self.settle()
        self.assertEqual(self.names(), ["one", "two"])
        self.delete("one")
        self.settle()
        self.assertEqual(self.names(), [])

    async def test_a_finalizer_holds_a_dependent_and_its_own_dependents(self) -> None:
        await self.begin()
        child = self.make("child", owner(self.make("owner")), finalizers=["example.com/mine"])
        self.make("grandchild", owner(child))
        self.delete("owner")
        self.settle()
        self.assertEqual(self.names(), ["child", "grandchild"])
        self.assertIn("deletionTimestamp", self.metadata("child"))
        self.call("PATCH", f"{MAPS}/child", {"metadata": {"finalizers": None}}, 200, MERGE)
        self.settle()
        self.assertEqual(self.names(), [])

    async def test_events_are_left_to_their_time(self) -> None:
        await self.begin()
        event = {"involvedObject": {"namespace": "n1"}, **named("e", owner(self.make("owner")), namespace="n1")}
        self.call("POST", "/api/v1/namespaces/n1/events", event, 201)
        self.delete("owner")
        self.settle()
        self.assertEqual(self.names("/api/v1/namespaces/n1/events"), ["e"])

    async def test_the_store_loses_its_history(self) -> None:
        """Everything is loaded again, and what has gone meanwhile had no event."""
        await self.begin()
        self.make("child", owner(self.make("owner")))
        self.settle()
        objects = [found for found in await self.api.store.scan("") if not found.key.endswith("/owner")]
        self.api.caches.reset(objects, [], self.api.caches.revision)
        self.settle()
        self.assertEqual(self.names(), [])


class Foreground(Case):
    async def test_the_owner_goes_after_those_that_block_it(self) -> None:
        await self.begin()
        reference = owner(self.make("owner"), blocks=True)
        self.make("held", reference, finalizers=["example.com/mine"])
        self.make("child", reference)
        self.make("careless", owner(self.metadata_of("owner")), finalizers=["example.com/mine"])
        self.delete("owner", "Foreground")
        self.settle()
        self.assertEqual(self.names(), ["careless", "held", "owner"])
        self.assertEqual(self.metadata("owner")["finalizers"], ["foregroundDeletion"])
        self.assertIn("deletionTimestamp", self.metadata("careless"))
        self.call("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, 200, MERGE)
        self.settle()
        self.assertEqual(self.names(), ["careless"])

    def metadata_of(self, name: str) -> Object:
        return self.call("GET", f"{MAPS}/{name}", expect=200)

    async def test_an_owner_without_dependents_goes_at_once(self) -> None:
        await self.begin()
        self.make("owner")
        self.delete("owner", "Foreground")
        self.settle()
        self.assertEqual(self.names(), [])

    async def test_the_whole_tree_goes_from_the_leaves(self) -> None:
        await self.begin()
        child = self.make("child", owner(self.make("owner"), blocks=True))
        self.make("grandchild", owner(child, blocks=True), finalizers=["example.com/mine"])
        self.delete("owner", "Foreground")
        self.settle()
        self.assertEqual(self.names(), ["child", "grandchild", "owner"])
        self.assertEqual(self.metadata("child")["finalizers"], ["foregroundDeletion"])
        self.call("PATCH", f"{MAPS}/grandchild", {"metadata": {"finalizers": None}}, 200, MERGE)
        self.settle()
        self.assertEqual(self.names(), [])

    async def test_a_circle_blocks_nobody_for_ever(self) -> None:
        await self.begin()
        one = self.make("one")
        two = self.make("two", owner(one, blocks=True))
        three = self.make("three", owner(two, blocks=True))
        back = {"metadata": {"ownerReferences": [owner(three, blocks=True), owner(one, blocks=True)]}}
        self.call("PATCH", f"{MAPS}/one", back, 200, MERGE)
        self.settle()
        self.delete("one", "Foreground")
        self.settle(10)
        self.assertEqual(self.names(), [])

    async def test_a_dependent_with_another_owner_is_let_go(self) -> None:
        await self.begin()
        one, two = self.make("one"), self.make("two")
        self.make("child", owner(one, blocks=True), owner(two))
        self.delete("one", "Foreground")
        self.settle()
        self.assertEqual(self.names(), ["child", "two"])
        self.assertEqual(self.metadata("child")["ownerReferences"], [owner(two)])

    async def test_a_dependent_that_comes_late_goes_too(self) -> None:
        await self.begin()
        one = self.make("owner")
        self.make("held", owner(one, blocks=True), finalizers=["example.com/mine"])
        self.delete("owner", "Foreground")
        self.settle()
        self.make("late", owner(one, blocks=True))
        self.settle()
        self.assertEqual(self.names(), ["held", "owner"])

    async def test_who_stops_blocking_lets_the_owner_go(self) -> None:
        await self.begin()
        one = self.make("owner")
        self.make("held", owner(one, blocks=True), finalizers=["example.com/mine"])
        self.delete("owner", "Foreground")
        self.settle()
        self.call("PATCH", f"{MAPS}/held", {"metadata": {"ownerReferences": [owner(one)]}}, 200, MERGE)
        self.settle()
        self.assertEqual(self.names(), ["held"])


class Orphan(Case):
    async def test_dependents_stay_without_their_owner(self) -> None:
        await self.begin()
        one, two = self.make("one"), self.make("two")
        self.make("child", owner(one))
        self.make("shared", owner(one, blocks=True), owner(two))
        self.delete("one", "Orphan")
        self.settle()
        self.assertEqual(self.names(), ["child", "shared", "two"])
        self.assertNotIn("ownerReferences", self.metadata("child"))
        self.assertEqual(self.metadata("shared")["ownerReferences"], [owner(two)])

    async def test_a_dependent_that_orphans_its_own(self) -> None:
        """The finalizer that somebody has set beforehand says how a dependent goes."""
        await self.begin()
        child = self.make("child", owner(self.make("owner")), finalizers=["orphan"])
        self.make("grandchild", owner(child))
        self.delete("owner")
        self.settle()
        self.assertEqual(self.names(), ["grandchild"])
        self.assertNotIn("ownerReferences", self.metadata("grandchild"))


class OtherPlaces(Case):
    def events(self, namespace: str) -> list[Object]:
        items: list[Object] = self.call("GET", f"/api/v1/namespaces/{namespace}/events", expect=200)["items"]
        return [item for item in items if item["reason"] == "OwnerRefInvalidNamespace"]

    async def test_an_owner_in_another_namespace_is_told_of_and_nothing_is_deleted(self) -> None:
        await self.begin()
        one = self.make("owner", path="/api/v1/namespaces/n2/configmaps")
        self.make("child", owner(one))
        self.settle()
        self.assertEqual(self.names(), ["child"])
        [event] = self.events("n1")
        uid = one["metadata"]["uid"]
        self.assertEqual(
            event["message"],
            f'ownerRef [v1/ConfigMap, namespace: n1, name: owner, uid: {uid}] does not exist in namespace "n1"',
        )
        self.assertEqual(event["involvedObject"]["name"], "child")
        self.assertEqual((event["type"], event["source"]), ("Warning", {"component": "garbage-collector-controller"}))

    async def test_a_cluster_scoped_dependent_has_no_namespaced_owner(self) -> None:
        await self.begin()
        one = self.make("owner")
        self.make("n3", owner(one), path="/api/v1/namespaces")
        self.settle()
        self.delete("owner")
        self.settle()
        self.assertIn("n3", self.names("/api/v1/namespaces"))
        self.assertEqual(len(self.events("default")), 1)

    async def test_a_cluster_scoped_owner_has_dependents_in_namespaces(self) -> None:
        await self.begin()
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        one = self.make("role", path=path)
        self.make("child", owner(one))
        self.settle()
        self.assertEqual(self.names(), ["child"])
        self.delete("role", path=path)
        self.settle()
        self.assertEqual(self.names(), [])


class Custom(Case):
    things = "/apis/example.com/v1/namespaces/n1/things"

    async def begin(self, *, collects: bool = True) -> None:
        await super().begin(collects=collects)
        self.call("POST", CRDS, definition("things", "Thing"), 201)
        self.settle_definitions()

    def settle_definitions(self) -> None:
        for _ in range(20):
            self.api.turn(0.1)

    def thing(self, name: str, *owners: Object) -> Object:
        return self.call(
            "POST", self.things, {"apiVersion": "example.com/v1", "kind": "Thing", **named(name, *owners)}, 201
        )

    async def test_custom_resources_own_and_are_owned(self) -> None:
        await self.begin()
        thing = self.thing("t", owner(self.make("owner")))
        self.make("child", owner(thing))
        self.settle()
        self.assertEqual(self.names(), ["child", "owner"])
        self.delete("owner")
        self.settle()
        self.assertEqual((self.names(), self.names(self.things)), ([], []))

    async def test_nobody_knows_an_owner_whose_kind_is_not_served(self) -> None:
        await self.begin()
        reference = {"apiVersion": "example.com/v1", "kind": "Later", "name": "x", "uid": "u-1"}
        self.make("child", reference)
        self.settle()
        self.assertEqual(self.names(), ["child"])
        self.call("POST", CRDS, definition("laters", "Later"), 201)
        self.settle()
        self.assertEqual(self.names(), [])

    async def test_a_definition_goes_with_its_objects_and_their_dependents(self) -> None:
        await self.begin()
        self.make("child", owner(self.thing("t")))
        self.settle()
        self.call("DELETE", f"{CRDS}/things.example.com", expect=200)
        self.settle(10)
        self.assertEqual(self.names(), [])

    async def test_dependents_are_looked_after_again_when_their_definition_comes_back(self) -> None:
        await self.begin()
        stored = b'{"kind":"Late","apiVersion":"example.com/v1","metadata":{"resourceVersion":"'
        one = self.make("owner")
        references = orjson.dumps([owner(one)])
        tail = b'","name":"l","namespace":"n1","uid":"u-2","ownerReferences":%s}}' % references
        await self.api.store.create("example.com/lates/n1/l", stored, tail)
        self.delete("owner")
        self.settle()
        self.call("POST", CRDS, definition("lates", "Late"), 201)
        self.settle(5)
        self.assertEqual(self.names("/apis/example.com/v1/namespaces/n1/lates"), [])
