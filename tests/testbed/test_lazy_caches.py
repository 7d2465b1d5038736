"""Caches of stores that share their objects: what is shared is read once, and what one store changes is its own."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

from twisted.internet.defer import execute
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.store.memory import MemoryStore
from kapi.testbed.lazy_caches import LazyCaches, SharedScopes
from kapi.testing.memory_api import succeed
from kapi.watchcache.cache import Cache
from kapi.watchcache.caches import Caches
from kapi.watchcache.event import CacheEvent
from kapi.watchcache.unreadable import Unreadable
from tests.watchcache.cache_case import Client, halves

PODS, NODES, WIDGETS = GroupResource("", "pods"), GroupResource("", "nodes"), GroupResource("example.com", "widgets")
FIELDS = {"spec.nodeName": lambda obj: str(obj["spec"]["nodeName"])}


class Observed:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.marks = (b'"nodeName":"n1"',)

    def concerns(self, event: CacheEvent) -> bool:
        return True

    def changed(self, events: Any) -> None:
        self.seen += [event.entry.key for _, event in events]

    def loaded(self, caches: Any) -> None: ...


class TestLateCaches(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.process = Caches(MemoryStore(), self.clock)
        self.scopes = SharedScopes(self.process, {PODS: (FIELDS, True), NODES: ({}, False)})
        origin = MemoryStore()
        for key, name in (("core/pods/ns/a", "a"), ("core/pods/ns/b", "b"), ("core/nodes//n", "n")):
            succeed(origin.create(key, *halves(name, node="n1")))
        succeed(origin.create("example.com/widgets/ns/w", *halves("w")))
        self.snapshot = origin.snapshot()
        self.stores = [MemoryStore(snapshot=self.snapshot) for _ in range(2)]
        self.both = [self.opened(store) for store in self.stores]

    def opened(self, store: MemoryStore) -> LazyCaches:
        caches = LazyCaches(store, self.clock, self.scopes, main=self.process, call=execute)
        succeed(caches.start())
        self.addCleanup(lambda: succeed(caches.stop()))
        return caches

    def pods(self, caches: LazyCaches) -> Cache:
        return caches.cache(PODS, FIELDS, True)

    def names(self, cache: Cache) -> list[str]:
        return [entry.key for entry in cache.list()[0]]

    def test_stores_share_the_entries_of_what_they_share(self) -> None:
        first, second = (self.pods(caches) for caches in self.both)
        self.assertEqual([self.names(first), self.names(second)], [["ns/a", "ns/b"]] * 2)
        self.assertIs(first.get("ns", "a"), second.get("ns", "a"))
        widgets = [caches.cache(WIDGETS, {"x": str}, True).get("ns", "w") for caches in self.both]
        self.assertIsNot(*widgets)  # its fields are each store's own affair

    def test_what_one_store_changes_the_other_does_not_see(self) -> None:
        first, second = (self.pods(caches) for caches in self.both)
        succeed(self.stores[0].delete("core/pods/ns/a", 1, *halves("a")))
        succeed(self.stores[0].create("core/pods/ns/c", *halves("c")))
        self.assertEqual([self.names(first), self.names(second)], [["ns/b", "ns/c"], ["ns/a", "ns/b"]])
        self.assertEqual(self.names(self.pods(self.opened(MemoryStore(snapshot=self.snapshot)))), ["ns/a", "ns/b"])

    def test_a_cache_is_made_when_somebody_looks_into_it_or_writes(self) -> None:
        caches, store = self.both[0], self.stores[0]
        self.assertEqual([caches.find(PODS), caches.find(NODES)], [None, None])
        succeed(store.create("core/pods/ns/c", *halves("c")))
        found = caches.find(PODS)
        assert found is not None
        self.assertEqual((self.names(found), caches.find(NODES)), (["ns/a", "ns/b", "ns/c"], None))
        self.assertEqual(self.names(caches.cache(NODES)), ["n"])

    def test_a_watch_goes_on_where_it_was_when_caches_are_made_anew(self) -> None:
        store = self.stores[0]
        succeed(store.create("core/pods/ns/c", *halves("c")))
        succeed(self.both[0].stop())
        pods, client = self.pods(self.opened(store)), Client()
        client.watch = pods.watch(self.snapshot.revision, client.batches.append, client.ends.append)
        self.clock.advance(0)
        self.assertEqual(client.told, [("ADDED", "ns/c", 5)])
        self.assertEqual(self.names(pods), ["ns/a", "ns/b", "ns/c"])

    def test_who_observes_all_is_told_of_resources_that_nobody_looked_into(self) -> None:
        observer = Observed()
        self.both[0].observe(observer)
        self.assertEqual(
            sorted(str(cache.resource) for cache in self.both[0].all()), ["nodes", "pods", "widgets.example.com"]
        )
        observer.marks = (b"none of them has this",)
        self.both[1].observe(observer)
        self.assertEqual([str(cache.resource) for cache in self.both[1].all()], ["widgets.example.com"])
        for store in self.stores:
            succeed(store.create("core/nodes//m", *halves("m")))
            self.clock.advance(0)
        self.assertEqual(observer.seen, ["m", "m"])

    def test_what_turns_out_to_be_unreadable_leaves_the_lists_of_all_that_hold_it(self) -> None:
        store = MemoryStore()
        head, tail = halves("late")
        succeed(store.create("core/pods/ns/late", head, tail[:-1] + b',"n":1e400}'))
        made = [self.pods(self.opened(MemoryStore(snapshot=store.snapshot()))) for _ in range(2)]
        predicate = Predicate(parse_labels(""), parse_fields("spec.nodeName=x"))
        self.assertEqual(list(made[0].list("ns", predicate)[0]), [])
        for pods in made:
            self.assertRaises(Unreadable, pods.get, "ns", "late")
        self.assertEqual(self.names(self.pods(self.both[0])), ["ns/a", "ns/b"])

    def test_the_fields_of_a_shared_resource_are_the_same_everywhere(self) -> None:
        self.assertRaises(ValueError, self.both[0].cache, PODS, {"other": str}, True)

    def test_what_is_shared_keeps_no_caches_alive(self) -> None:
        caches = LazyCaches(self.stores[0], self.clock, self.scopes, main=self.process, call=execute)
        succeed(self.both.pop(0).stop())
        succeed(caches.start())
        assert self.pods(caches).get("ns", "a") is not None
        succeed(caches.stop())
        gone = ref(caches)
        del caches
        gc.collect()
        self.assertIsNone(gone())
