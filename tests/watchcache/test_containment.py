"""A fault stays with its object or its resource: the others' lists and watches go on, and it mends itself."""

from __future__ import annotations

import inspect
import sys
from typing import Any
from unittest.mock import patch

import orjson
from twisted.internet.defer import Deferred

from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.machinery.status import TooManyRequests
from kapi.store.errors import Compacted, StoreUnavailable
from kapi.store.interface import StoredObject
from kapi.watchcache import reload
from kapi.watchcache.backlog import MAX_BATCH_ENTRIES
from kapi.watchcache.metrics import families
from kapi.watchcache.unreadable import Unreadable, problem_of
from tests.watchcache.cache_case import CacheTest, Client, halves

MAPS = GroupResource("", "configmaps")
TORN = (b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"', b'","name":"torn","labels":{"a":"b')


class OneObject(CacheTest):
    def torn(self, name: str = "torn") -> int:
        return int(self.run_async(self.store.create(f"core/pods/ns/{name}", *TORN)))

    def test_lists_go_around_what_cannot_be_read(self) -> None:
        self.torn()
        self.create("a", a="b")
        for labels, fields in (("", ""), ("a=b", ""), ("", "spec.nodeName="), ("", "metadata.name!=x")):
            predicate = Predicate(parse_labels(labels), parse_fields(fields))
            self.assertEqual(self.keys(self.pods.list("ns", predicate)[0]), ["ns/a"])
        self.assertEqual([obj["metadata"]["name"] for obj in self.pods.objects()], ["a"])
        self.assertEqual((self.pods.unreadable_in("ns"), self.pods.unreadable_in("other")), (["ns/torn"], []))
        with self.assertRaisesRegex(
            Unreadable, "corrupt object.*/registry/pods/ns/torn.*object not decodable revision=1"
        ):
            self.pods.get("ns", "torn")

    def test_what_no_key_decrypts_is_not_taken_for_damaged(self) -> None:
        self.run_async(self.store.create("core/pods/ns/secret", b"k8s:enc:aesgcm:v1:gone:", b"\x00\xff"))
        with self.assertRaisesRegex(
            Unreadable,
            "corrupt object.*/registry/pods/ns/secret.*data from the storage is not transformable revision=0",
        ):
            self.pods.get("ns", "secret")

    def test_watches_go_on(self) -> None:
        everything, selected = self.watch(), self.watch(labels="a=b")
        self.torn()
        self.create("a", a="b")
        self.turn()
        for client in (everything, selected):
            self.assertEqual((client.told, client.ends), ([("ADDED", "ns/a", 2)], []))

    def test_an_object_that_becomes_unreadable_is_gone_and_comes_back(self) -> None:
        first = self.create("torn", a="b")
        client = self.watch(first, labels="a=b")
        second = self.run_async(self.store.update("core/pods/ns/torn", first, *TORN))
        self.assertEqual(self.keys(self.pods.list()[0]), [])
        third = self.update("torn", second, a="b")
        self.turn()
        self.assertEqual(client.told, [("DELETED", "ns/torn", 2), ("ADDED", "ns/torn", 3)])
        self.assertEqual((self.pods.unreadable, len(self.pods)), ({}, 1))
        fourth = self.run_async(self.store.update("core/pods/ns/torn", third, *TORN))
        self.delete("torn", fourth)
        self.turn()
        self.assertEqual(client.told[2:], [("DELETED", "ns/torn", 4)])
        self.assertEqual((self.pods.unreadable, len(self.pods)), ({}, 0))

    def test_a_restart_loads_around_it(self) -> None:
        self.torn()
        self.create("a")
        self.open()
        self.assertEqual(self.keys(self.pods.list()[0]), ["ns/a"])
        self.assertEqual(self.pods.unreadable_in(), ["ns/torn"])
        self.create("b")
        self.assertEqual(self.keys(self.pods.list()[0]), ["ns/a", "ns/b"])

    def test_an_object_is_not_set_aside_because_memory_is_short(self) -> None:
        """Its watchers would be told that it is deleted."""
        self.create("a")
        entry = self.pods.get("ns", "a")
        entry.forget_object()
        problem = orjson.JSONDecodeError("Not enough memory to allocate buffer for parsing", "", 0)
        with patch("orjson.loads", side_effect=problem), self.assertRaises(MemoryError):
            _ = entry.object
        self.assertEqual((self.pods.unreadable, len(self.pods)), ({}, 1))
        self.assertEqual(entry.object["metadata"]["name"], "a")

    def test_what_is_found_to_be_unreadable_later_is_set_aside_then(self) -> None:
        """A number that is syntax, and no number to those who decode it."""
        head, tail = halves("late", a="b")
        client, other = self.watch(), self.watch(labels="x=y")
        self.run_async(self.store.create("core/pods/ns/late", head, tail[:-1] + b',"n":1e400}'))
        self.create("a")
        predicate = Predicate(parse_labels(""), parse_fields("spec.nodeName="))
        self.assertEqual(self.keys(self.pods.list("ns", predicate)[0]), ["ns/a"])
        self.turn()
        self.assertEqual(self.pods.unreadable_in(), ["ns/late"])
        for ended in (client, other):
            self.assertIsInstance(ended.ends[0], Compacted)
        with self.assertRaises(Compacted):
            self.watch(1)
        self.assertEqual(self.watch(2).ends, [])

    def test_a_selected_watch_of_such_an_object_costs_no_other_resource_anything(self) -> None:
        maps = self.caches.cache(MAPS)
        client, pods = Client(), self.watch(fields="spec.nodeName=x")
        client.watch = maps.watch(None, client.batches.append, client.ends.append)
        head, tail = halves("late", node="x")
        self.run_async(self.store.create("core/pods/ns/late", head, tail[:-1] + b',"n":1e400}'))
        self.run_async(self.store.create("core/configmaps/ns/m", *halves("m")))
        self.turn()
        self.assertEqual((client.told, client.ends), ([("ADDED", "ns/m", 2)], []))
        self.assertIsInstance(pods.ends[0], Compacted)
        self.assertEqual(self.caches.revision, 2)

    def test_a_key_that_is_none_is_skipped_and_counted(self) -> None:
        self.run_async(self.store.create("nonsense", *halves("a")))
        self.create("a")
        self.assertEqual((self.keys(self.pods.list()[0]), self.caches.skipped.total), (["ns/a"], 1))
        self.open()
        self.assertEqual((self.keys(self.pods.list()[0]), self.caches.skipped.total), (["ns/a"], 1))

    def test_a_deep_object_is_readable_from_a_deep_stack(self) -> None:
        head, tail = halves("deep", a="b")
        self.run_async(self.store.create("core/pods/ns/other", *halves("other")))

        def down(frames: int) -> int:
            if frames:
                return down(frames - 1)
            tree = b"[" * 230 + b"]" * 230
            self.run_async(self.store.create("core/pods/ns/deep", head, tail[:-1] + b',"d":%s}' % tree))
            return len(self.pods.list("ns", Predicate(parse_labels("a=b"), parse_fields("")))[0])

        self.assertEqual(down(sys.getrecursionlimit() - len(inspect.stack()) - 150), 1)

    def test_the_stored_form_is_what_counts(self) -> None:
        head, tail = halves("a", labels="b")
        self.assertEqual(problem_of(head + b"7" + tail, 7, "a"), "")
        for data in (
            b"",
            head + b"7",
            head + b"8" + tail,
            head + b"7" + tail + b"x",
            b" " + head + b"7" + tail,
            (head + b"7" + tail).replace(b'"a"', b'"\xff"'),
            (head + b"7" + tail).replace(b'"a"', b'"\\ud800"'),
            (head + b"7" + tail).replace(b'"labels":{"labels":"b"}', b'"labels":{"labels":1}'),
        ):
            self.assertNotEqual(problem_of(data, 7, "a"), "", data)
        self.assertNotEqual(problem_of(head + b"7" + tail, 7, "another"), "")


class LongHistory(CacheTest):
    def test_a_selection_of_it_is_made_in_several_turns(self) -> None:
        count = 3 * MAX_BATCH_ENTRIES
        for number in range(count):
            self.create(f"p{number}", node="n" if number == count - 1 else "m")
        client, ends = Client(), 0
        with patch("kapi.watchcache.watch._MAX_SECONDS", 0.0):
            predicate = Predicate(parse_labels(""), parse_fields("spec.nodeName=n"))
            client.watch = self.pods.watch(0, client.batches.append, client.ends.append, predicate=predicate)
            self.assertEqual(self.pods.get("ns", f"p{count - 1}")._fields, None, "nothing is looked at yet")
            while not client.told:
                call = self.clock.calls.pop(0)
                call.called = 1
                call.func()
                ends += 1
            self.create("q", node="n")
            self.turn()
        self.assertGreater(ends, 1)
        self.assertEqual([key for _, key, _ in client.told], [f"ns/p{count - 1}", "ns/q"])

    def test_a_selection_that_fails_ends_its_watch(self) -> None:
        self.create("a", node="n")
        client = Client()
        predicate = Predicate(parse_labels(""), parse_fields("spec.nodeName=n"))
        client.watch = self.pods.watch(0, client.batches.append, client.ends.append, predicate=predicate)
        with patch("kapi.watchcache.selection.Group.select", lambda group, event: 1 / 0):
            self.turn()
        self.assertEqual((client.told, client.ends, self.pods.watches), ([], [None], 0))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_a_former_state_that_cannot_be_read_ends_it(self) -> None:
        head, tail = halves("late")
        first = self.run_async(self.store.create("core/pods/ns/late", head, tail[:-1] + b',"n":1e400}'))
        self.update("late", first, node="n")
        client = self.watch(0, fields="spec.nodeName=n")
        self.assertIsInstance(client.ends[0], Compacted)
        self.assertEqual(self.watch(2).ends, [])


class OneResource(CacheTest):
    """The cache itself is broken: it is made anew from the store."""

    def setUp(self) -> None:
        super().setUp()
        self.create("a")
        self.maps = self.caches.cache(MAPS)

    def break_apply(self, times: int = 1) -> None:
        apply, left = self.pods.apply, [times]

        def broken(kind: str, entry: Any) -> Any:
            if left[0]:
                left[0] -= 1
                raise RuntimeError("a bug")
            return apply(kind, entry)

        self.patch(self.pods, "apply", broken)

    def test_others_go_on_and_it_is_reloaded(self) -> None:
        others = Client()
        others.watch = self.maps.watch(None, others.batches.append, others.ends.append)
        pods = self.watch()
        self.break_apply()
        self.create("b")
        self.assertEqual(self.caches.failing(), "reloading pods")
        self.assertIsInstance(pods.ends[0], Compacted)
        waiting = self.pods.wait_fresh()
        assert waiting is not None
        self.assertIsNone(self.maps.wait_fresh())
        self.create("c")
        self.run_async(self.store.create("core/configmaps/ns/m", *halves("m")))
        self.turn()
        self.assertEqual((others.told, others.ends), ([("ADDED", "ns/m", 4)], []))
        self.assertNoResult(waiting)
        self.clock.advance(0.1)
        self.successResultOf(waiting)
        self.assertEqual((self.caches.failing(), self.pods.reload.count), ("", 1))
        self.assertEqual(self.keys(self.pods.list()[0]), ["ns/a", "ns/b", "ns/c"])
        with self.assertRaises(Compacted):
            self.watch(3)
        after = self.watch(4)
        self.create("d")
        self.turn()
        self.assertEqual(after.told, [("ADDED", "ns/d", 5)])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_reads_that_waited_for_it_still_wait_for_what_they_asked_for(self) -> None:
        asked: list[Deferred[int]] = []

        def revision() -> Deferred[int]:
            asked.append(Deferred())
            return asked[-1]

        self.patch(self.store, "exclusive", False)
        self.patch(self.store, "revision", revision)
        self.break_apply()
        self.create("b")
        fresh, third = self.pods.wait_fresh(), self.pods.wait_for(3)
        assert fresh is not None and third is not None
        self.clock.advance(0.1)
        asked[0].callback(2)
        self.assertEqual(self.caches.failing(), "")
        self.assertNoResult(fresh)
        self.assertNoResult(third)
        asked[1].callback(3)
        self.assertNoResult(fresh)
        self.create("c")
        self.successResultOf(fresh)
        self.successResultOf(third)
        self.flushLoggedErrors(RuntimeError)

    def test_metrics_tell_of_it(self) -> None:
        self.break_apply()
        self.create("b")
        self.clock.advance(0.1)
        self.run_async(self.store.create("core/pods/ns/torn", *TORN))
        self.run_async(self.store.create("nonsense", *TORN))
        values = {
            (sample.name, *sample.labels.values()): sample.value
            for family in families(self.caches)()
            for sample in family.samples
        }
        self.assertEqual(values["kapi_watch_cache_reloads_total", "", "pods"], 1)
        self.assertEqual(values["kapi_watch_cache_reloads_total", "", "configmaps"], 0)
        self.assertEqual(values["kapi_unreadable_objects", "", "pods"], 1)
        self.assertEqual(values["kapi_store_skipped_entries_total", "objects"], 1)
        self.assertEqual(values[("kapi_store_resets_total",)], 0)
        self.assertEqual(
            self.caches.store_warnings(), "1 objects cannot be read, 1 entries that kapi did not write were skipped"
        )
        self.flushLoggedErrors(RuntimeError)

    def test_changes_during_the_scan_are_merged(self) -> None:
        self.break_apply()
        self.create("b")
        found = self.run_async(self.store.scan("core/pods/"))
        scanned: Deferred[list[StoredObject]] = Deferred()
        self.patch(self.store, "scan", lambda prefix: scanned)
        self.clock.advance(0.1)
        self.update("a", 1, node="n")
        self.delete("b", 2)
        self.create("c")
        scanned.callback(found)
        self.assertEqual([(entry.key, entry.revision) for entry in self.pods.list()[0]], [("ns/a", 3), ("ns/c", 5)])
        self.flushLoggedErrors(RuntimeError)

    def test_a_store_that_is_away_is_asked_again_and_readers_do_not_wait_for_ever(self) -> None:
        answers: list[Any] = [StoreUnavailable("away")] * 4

        async def scan(prefix: str) -> list[StoredObject]:
            if answers:
                raise answers.pop()
            return await scan_really(prefix)

        scan_really = self.store.scan
        self.patch(self.store, "scan", scan)
        self.patch(reload, "BACK_OFF", (2.0, 30.0))
        self.break_apply()
        self.create("b")
        waiting = self.pods.wait_fresh()
        assert waiting is not None
        for _ in range(40):
            self.clock.advance(0.1)
        self.failureResultOf(waiting, TooManyRequests)
        for _ in range(700):
            self.clock.advance(0.1)
        self.assertEqual((self.caches.failing(), self.keys(self.pods.list()[0])), ("", ["ns/a", "ns/b"]))
        self.flushLoggedErrors(RuntimeError)

    def test_the_store_is_asked_at_growing_intervals_up_to_a_longest_one(self) -> None:
        asked: list[float] = []

        async def scan(prefix: str) -> list[StoredObject]:
            asked.append(self.clock.seconds())
            raise StoreUnavailable("away")

        self.patch(self.store, "scan", scan)
        self.patch(reload, "BACK_OFF", (2.0, 30.0))
        begin = self.clock.seconds()
        self.break_apply()
        self.create("b")
        for _ in range(120):
            self.clock.advance(1)
        self.assertEqual([seconds - begin for seconds in asked], [2, 6, 14, 30, 60, 90, 120])
        self.flushLoggedErrors(RuntimeError)

    def test_a_full_load_ends_it(self) -> None:
        self.break_apply()
        self.create("b")
        waiting = self.pods.wait_fresh()
        assert waiting is not None
        self.caches.reset([], [], 0)
        self.successResultOf(waiting)
        self.assertEqual((self.caches.failing(), self.pods.list()), ("", ([], 0)))
        self.clock.advance(60)
        self.assertEqual(self.pods.list(), ([], 0))
        self.flushLoggedErrors(RuntimeError)

    def test_bookmarks_stop_while_it_does_not_know(self) -> None:
        self.break_apply()
        self.patch(self.store, "scan", lambda prefix: Deferred())
        self.create("b")
        client = self.watch(bookmarks=True)
        for _ in range(70):
            self.clock.advance(1)
        self.assertEqual(client.told, [])
        self.flushLoggedErrors(RuntimeError)

    def test_a_second_that_fails_does_not_stop_the_clock(self) -> None:
        turn = self.caches.bookmarks.turn
        self.patch(self.caches.bookmarks, "turn", lambda: 1 / 0)
        self.clock.advance(1)
        self.patch(self.caches.bookmarks, "turn", turn)
        client = self.watch(bookmarks=True)
        for _ in range(70):
            self.clock.advance(1)
        self.assertEqual([event[0] for event in client.told], ["BOOKMARK"])
        self.flushLoggedErrors(ZeroDivisionError)
