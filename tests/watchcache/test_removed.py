"""What stays of a resource whose definition was deleted."""

from __future__ import annotations

from kapi.machinery.gvk import GroupResource
from kapi.process.slices import Slices
from kapi.store.interface import StoredObject
from tests.process.turns import EVERY, Turns
from tests.watchcache.cache_case import PODS, CacheTest, halves

LONG = 700  # seconds: the history is gone then


class Removed(CacheTest):
    def wait(self) -> None:
        self.clock.pump([1.0] * LONG)

    def test_nothing_stays_of_resources_under_ever_new_names(self) -> None:
        known = len(self.caches.all())
        for number in range(50):
            resource = GroupResource("example.com", f"things{number}")
            self.caches.cache(resource, {}, True)
            self.caches.remove(resource)
        self.wait()
        self.assertEqual(len(self.caches.all()), known)

    def test_a_cache_stays_while_requests_may_have_it(self) -> None:
        self.caches.remove(PODS)
        self.clock.pump([1.0] * 60)
        self.assertIs(self.caches.find(PODS), self.pods)

    def test_a_cache_stays_as_long_as_it_has_objects_or_history(self) -> None:
        revision = self.create("a")
        self.caches.remove(PODS)
        self.wait()
        self.assertIs(self.caches.find(PODS), self.pods, "the store still has an object of it")
        self.delete("a", revision)
        self.clock.pump([1.0] * 200)
        self.assertIs(self.caches.find(PODS), self.pods, "lists of the past and watches may need it")
        self.wait()
        self.assertIsNone(self.caches.find(PODS))

    def test_a_resource_that_is_defined_again_keeps_its_cache(self) -> None:
        self.caches.remove(PODS)
        self.caches.cache(PODS, {}, True)
        self.wait()
        self.assertIs(self.caches.find(PODS), self.pods)

    def test_a_cache_that_is_watched_again_stays(self) -> None:
        self.caches.remove(PODS)
        client = self.watch()
        self.wait()
        self.create("a")
        self.turn()
        self.assertEqual(client.told, [("ADDED", "ns/a", 1)])

    def test_what_is_loaded_for_it_in_slices_is_there(self) -> None:
        """Another server has defined it again and written objects, while this one was cut off from the store."""
        slices = Slices(self.clock, length=EVERY)
        self.caches.remove(PODS)
        self.clock.pump([1.0] * 119)
        found = []
        for number in range(100):
            head, tail = halves(f"p{number}")
            found.append(StoredObject(f"core/pods/ns/p{number}", 7, head + b"7" + tail))
        work = slices.call(self.caches.reset, found, [], 7)
        Turns.turn(self)  # type: ignore[arg-type]
        self.assertFalse(work.called)
        self.clock.rightNow += 10
        self.caches.trim()
        self.clock.pump([0.0] * 30)
        self.successResultOf(work)
        self.assertEqual(len(self.caches.cache(PODS)), 100)
