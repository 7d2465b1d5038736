"""Loading everything again while the server serves: in slices, of which nobody sees the half."""

from __future__ import annotations

from typing import Any

from kapi.machinery.gvk import GroupResource
from kapi.process.slices import Slices
from kapi.store.errors import Compacted
from kapi.store.interface import Change, StoredObject
from tests.watchcache.cache_case import CacheTest, halves

COUNT = 200


def stored(number: int, revision: int) -> StoredObject:
    head, tail = halves(f"p{number:03}")
    return StoredObject(f"core/pods/ns/p{number:03}", revision, head + b"%d" % revision + tail)


class Loaded(CacheTest):
    def test_keys_with_a_beginning_in_common_are_of_different_objects(self) -> None:
        """What is known of one key counts for the next one only when that one has the same parts."""
        pod, further = stored(1, 1), stored(2, 3)
        other = StoredObject("apps/deployments/ns/p001", 2, pod.data.replace(b'"1"', b'"2"'))
        longer = StoredObject("core/pods/ns/p001/p002", 4, further.data.replace(b'"3"', b'"4"'))
        global_one = StoredObject("core/nodes//p001", 5, pod.data.replace(b'"1"', b'"5"'))
        another = StoredObject("core/pods/ns/p001/p003", 6, stored(3, 6).data)
        self.caches.reset([pod, other, further, longer, global_one, another], [], 6)
        caches = {str(cache.resource): self.keys(cache.list()[0]) for cache in self.caches.all() if len(cache)}
        self.assertEqual(caches, {"pods": ["ns/p001", "ns/p002"], "deployments.apps": ["ns/p001"], "nodes": ["p001"]})
        self.assertEqual(list(self.pods.unreadable), ["ns/p001/p002", "ns/p001/p003"])

    def test_history_has_the_objects_that_there_are_and_former_states_of_their_own(self) -> None:
        old, new = stored(1, 1), stored(1, 2)
        history = [Change(1, "c", old.key, old.data), Change(2, "u", new.key, bytes(bytearray(new.data)))]
        self.caches.reset([new], history, 2)
        (entry,) = self.pods.list()[0]
        one, other = (logged.event for logged in self.caches.between(0, 2))
        self.assertEqual((one.entry.data, other.previous), (old.data, one.entry))
        self.assertIs(other.entry, entry)


class InSlices(CacheTest):
    def open(self, **options: Any) -> None:
        self.slices = Slices(self.clock, length=-1.0)
        super().open(call=self.slices.call, **options)

    def turns(self, done: Any = None) -> int:
        """How many turns of the reactor pass until nothing is left to do, or the condition holds."""
        for count in range(10_000):
            due = [call for call in self.clock.calls if call.time <= self.clock.rightNow]
            if done is not None and done() or not due:
                return count
            for call in due:
                self.clock.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)
        raise AssertionError("it does not end")

    def test_who_reads_sees_all_of_it_or_nothing(self) -> None:
        first = self.create("old")
        client = self.watch()
        objects = [stored(number, number + 10) for number in range(COUNT)]
        history = [Change(one.revision, "c", one.key, one.data) for one in objects]
        done = self.slices.call(self.caches.reset, objects, history, COUNT + 9)
        seen: list[list[str]] = []

        def look() -> bool:
            seen.append(self.keys(self.pods.list()[0]))
            return bool(done.called)

        self.assertGreater(self.turns(look), 5)
        self.successResultOf(done)
        expected = [f"ns/p{number:03}" for number in range(COUNT)]
        self.assertEqual({tuple(keys) for keys in seen}, {("ns/old",), tuple(expected)})
        self.assertEqual((self.caches.revision, self.caches.floor), (COUNT + 9, 9))
        self.assertIsInstance(client.ends[0], Compacted)
        with self.assertRaises(Compacted):
            self.watch(first)
        later = self.watch(COUNT + 7)
        self.turns()
        self.assertEqual([key for _, key, _ in later.told], expected[-2:])

    def test_all_resources_are_taken_at_once(self) -> None:
        self.create("old")
        maps = self.caches.cache(GroupResource("", "configmaps"))
        self.run_async(self.store.create("core/configmaps/ns/m", *halves("m")))
        done = self.slices.call(self.caches.reset, [stored(1, 11), stored(2, 12)], [], 12)
        seen: list[tuple[int, ...]] = []

        def look() -> bool:
            seen.append((len(self.pods), len(maps), self.caches.revision))
            return bool(done.called)

        self.turns(look)
        self.successResultOf(done)
        self.assertEqual(set(seen), {(1, 1, 2), (2, 0, 12)})

    def test_a_cache_made_meanwhile_is_loaded_with_the_others(self) -> None:
        done = self.slices.call(self.caches.reset, [stored(number, number + 1) for number in range(COUNT)], [], COUNT)
        self.assertNoResult(done)
        other = self.caches._cache_of("apps", "deployments")
        self.turns()
        self.successResultOf(done)
        self.assertEqual((other.list(), len(self.pods)), (([], COUNT), COUNT))

    def test_changes_while_one_resource_is_loaded_again_are_not_lost(self) -> None:
        for number in range(COUNT):
            self.create(f"p{number:03}")
        self.pods.start_reload()
        self.clock.rightNow += 0.1
        prepared: list[int] = []
        add = self.caches._locate

        def locate(key: str) -> Any:  # in the middle of it others write
            prepared.append(1)
            if len(prepared) == COUNT // 2:
                self.update("p000", 1, node="n")
                self.delete("p001", 2)
                self.create("zz")
            return add(key)

        self.patch(self.caches, "_locate", locate)
        self.assertGreater(self.turns(lambda: not self.pods.reload.running), 5)
        self.assertEqual(self.caches.failing(), "")
        found = {entry.key: entry.revision for entry in self.pods.list()[0]}
        self.assertEqual((found["ns/p000"], found["ns/zz"], len(found)), (COUNT + 1, COUNT + 3, COUNT))
        self.assertNotIn("ns/p001", found)
        self.assertEqual(self.pods.size, sum(len(entry.data) for entry in self.pods.list()[0]))
