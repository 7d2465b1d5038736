"""The watch cache over a store in memory: reading, watching, paging, bounds."""

from __future__ import annotations

import gc
from typing import Any

from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.machinery.status import Timeout
from kapi.store.errors import Compacted
from kapi.watchcache.counts import Sent
from kapi.watchcache.metrics import families
from tests.watchcache.cache_case import PODS, CacheTest, halves


class Reading(CacheTest):
    def test_get_list_and_revision(self) -> None:
        self.create("b")
        self.create("a")
        self.create("a", "ns-2")
        entries, revision = self.pods.list()
        self.assertEqual((self.keys(entries), revision), (["ns-2/a", "ns/a", "ns/b"], 3))
        self.assertEqual(self.keys(self.pods.list("ns")[0]), ["ns/a", "ns/b"])
        self.assertEqual(self.keys(self.pods.list("n")[0]), [])
        entry = self.pods.get("ns", "b")
        self.assertEqual((entry.name, entry.revision, entry.object["metadata"]["resourceVersion"]), ("b", 1, "1"))
        self.assertIsNone(self.pods.get("ns-2", "b"))

    def test_the_objects_of_a_namespace_share_its_text(self) -> None:
        """60 bytes of each object otherwise."""
        for name in ("a", "b"):
            self.create(name, "".join(["n", "s"]))
        first, second = self.pods.list()[0]
        self.assertIs(first.namespace, second.namespace)

    def test_objects_are_selected_by_all_of_the_labels_and_may_have_more(self) -> None:
        for name, labels in (("a", {"app": "x"}), ("b", {"app": "x", "tier": "y"}), ("c", {"app": "z", "tier": "y"})):
            self.create(name, **labels)
        self.create("d", "other", app="x")
        self.turn()

        def names(*where: Any) -> list[str]:
            return [obj["metadata"]["name"] for obj in self.pods.objects(*where)]

        self.assertEqual(names("ns", {"app": "x"}), ["a", "b"])
        self.assertEqual(names("ns", {"app": "x", "tier": "y"}), ["b"])
        self.assertEqual((names("", {"app": "x"}), names("ns", {})), (["a", "b", "d"], ["a", "b", "c"]))

    def test_a_list_that_was_handed_out_does_not_change(self) -> None:
        first = self.create("a")
        self.create("b")
        before, _ = self.pods.list()
        self.update("a", first)
        self.create("c")
        self.assertEqual([(e.key, e.revision) for e in before], [("ns/a", 1), ("ns/b", 2)])
        self.assertEqual([(e.key, e.revision) for e in self.pods.list()[0]], [("ns/a", 3), ("ns/b", 2), ("ns/c", 4)])

    def test_revision_covers_other_resources(self) -> None:
        self.run_async(self.store.create("apps/deployments/ns/d", *halves("d")))
        self.assertEqual(self.pods.list(), ([], 1))

    def test_cluster_scoped_objects(self) -> None:
        nodes = self.caches.cache(GroupResource("", "nodes"), namespaced=False)
        self.run_async(self.store.create("core/nodes//n1", *halves("n1")))
        self.assertEqual(self.keys(nodes.list()[0]), ["n1"])
        self.assertEqual(nodes.get("", "n1").fields, {"metadata.name": "n1"})

    def test_selectors(self) -> None:
        self.create("a", node="n1", app="web")
        self.create("b", node="n2", app="web")
        self.create("c", node="n1")

        def names(labels: str = "", fields: str = "", namespace: str = "") -> list[str]:
            predicate = Predicate(parse_labels(labels), parse_fields(fields))
            return [entry.name for entry in self.pods.list(namespace, predicate)[0]]

        self.assertEqual(names("app=web"), ["a", "b"])
        self.assertEqual(names("", "spec.nodeName=n1"), ["a", "c"])
        self.assertEqual(names("app", "spec.nodeName=n1", "ns"), ["a"])
        self.assertEqual(names("", "metadata.name=b", "ns"), ["b"])
        self.assertEqual(names("", "metadata.name=b"), ["b"])
        self.assertEqual(names("", "metadata.namespace!=ns"), [])
        self.assertEqual(names("app=web", "metadata.name=c", "ns"), [])

    def test_new_selectable_fields_apply_to_what_is_cached(self) -> None:
        self.create("a", node="n1")
        self.assertEqual(self.pods.get("ns", "a").fields["spec.nodeName"], "n1")
        self.caches.cache(PODS, {"spec.other": lambda obj: "x"})
        self.assertEqual(
            self.pods.get("ns", "a").fields, {"metadata.name": "a", "metadata.namespace": "ns", "spec.other": "x"}
        )

    def test_a_resource_that_is_asked_for_late_finds_its_objects(self) -> None:
        self.run_async(self.store.create("example.com/things/ns/t", *halves("t")))
        things = self.caches.cache(GroupResource("example.com", "things"))
        self.assertEqual(self.keys(things.list()[0]), ["ns/t"])

    def test_reads_of_a_revision_to_come_wait_and_give_up(self) -> None:
        self.create("a")
        self.assertIsNone(self.pods.wait_for(1))
        waiting = self.pods.wait_for(2)
        assert waiting is not None
        self.assertNoResult(waiting)
        self.create("b")
        self.successResultOf(waiting)
        waiting = self.pods.wait_for(9)
        assert waiting is not None
        self.clock.advance(3.1)
        self.assertIn("Too large resource version: 9, current: 2", str(self.failureResultOf(waiting, Timeout).value))

    def test_exclusive_store_needs_no_question(self) -> None:
        self.assertIsNone(self.pods.wait_fresh())


class Snapshots(CacheTest):
    def test_exact_revisions(self) -> None:
        a = self.create("a")
        self.create("b")
        a2 = self.update("a", a, app="new")
        self.delete("a", a2)
        self.create("0")
        states = {
            1: [("ns/a", 1)],
            2: [("ns/a", 1), ("ns/b", 2)],
            3: [("ns/a", 3), ("ns/b", 2)],
            4: [("ns/b", 2)],
            5: [("ns/0", 5), ("ns/b", 2)],
        }
        for _ in range(2):
            for revision, state in states.items():
                self.assertEqual([(e.key, e.revision) for e in self.pods.list_at(revision)], state)
        self.assertEqual(self.keys(self.pods.list_at(3, "ns", Predicate(parse_labels("app=new")))), ["ns/a"])

    def test_what_is_compacted_is_gone(self) -> None:
        self.open(history_age=60.0)
        self.create("a")
        self.create("b")
        for _ in range(80):
            self.clock.advance(1)
        self.create("c")
        self.assertEqual(self.keys(self.pods.list_at(2)), ["ns/a", "ns/b"])
        for read in (self.pods.list_at, self.watch):
            with self.assertRaisesRegex(Compacted, r"too old resource version: 1 \(2\)$"):
                read(1)
        self.assertEqual(self.watch(2).told, [("ADDED", "ns/c", 3)])

    def test_a_short_history_is_let_go_as_soon_as_it_ends(self) -> None:
        self.open(history_age=2.0)
        self.create("a")
        self.create("b")
        for _ in range(4):
            self.clock.advance(1)
        with self.assertRaises(Compacted):
            self.pods.list_at(1)
        self.assertEqual(self.keys(self.pods.list_at(2)), ["ns/a", "ns/b"])

    def test_history_is_bounded_by_size(self) -> None:
        self.open(history_bytes=20_000)
        for n in range(200):
            self.create(f"p{n}")
        self.caches.trim()
        self.assertGreater(self.caches.floor, 150)
        self.assertLess(self.caches.floor, 200)
        self.assertEqual(len(self.watch(self.caches.floor).told), 200 - self.caches.floor)

    def test_a_restart_keeps_the_history_of_the_store(self) -> None:
        a = self.create("a", app="x")
        self.update("a", a)
        self.create("b")
        self.open()
        self.assertEqual(self.keys(self.pods.list_at(1)), ["ns/a"])
        self.assertEqual(self.watch(1).told, [("MODIFIED", "ns/a", 2), ("ADDED", "ns/b", 3)])
        self.assertEqual(self.watch(1, "app=x").told, [("DELETED", "ns/a", 2)])

    def test_after_a_restart_selections_do_not_guess_what_was_compacted(self) -> None:
        a = self.create("a", app="x")
        self.update("a", a)
        self.create("b", app="x")
        self.run_async(self.store.compact(1))
        self.open()
        with self.assertRaises(Compacted):
            self.watch(1, "app=x")
        with self.assertRaises(Compacted):
            self.pods.list_at(1)
        self.assertEqual(self.watch(1).told, [("MODIFIED", "ns/a", 2), ("ADDED", "ns/b", 3)])
        self.assertEqual(self.watch(2, "app=x").told, [("ADDED", "ns/b", 3)])
        self.assertEqual(self.keys(self.pods.list_at(2)), ["ns/a"])


class Metrics(CacheTest):
    def test_what_is_counted(self) -> None:
        self.create("a")
        self.watch()
        self.create("b")
        self.create("c")
        self.turn()
        named = {family.name: family.samples for family in families(self.caches)()}
        values = {
            name: samples[0].value
            for name, samples in named.items()
            if samples and samples[0].labels in ({"group": "", "resource": "pods"}, {"resource": "pods"})
        }
        self.assertEqual(values["apiserver_watch_cache_events_received"], 3)
        self.assertEqual(values["apiserver_watch_cache_events_dispatched"], 2)
        idle_ones = ("apiserver_terminated_watchers", "apiserver_cache_list_returned_objects")
        for idle in (*idle_ones, "apiserver_watch_cache_read_wait_seconds"):
            self.assertEqual(named[idle], [])  # nothing was counted: no series
        self.assertEqual(values["apiserver_watch_cache_resource_version"], 3)
        self.assertEqual(values["apiserver_storage_objects"], 3)
        self.assertEqual(
            values["apiserver_resource_size_estimate_bytes"], sum(len(e.data) for e in self.pods.list()[0])
        )

    def test_reads_and_watches_are_counted_by_their_labels(self) -> None:
        reads, sent = self.pods.reads, self.pods.sent.setdefault("v1", Sent())
        reads.lists, reads.fetched, reads.consistent, reads.failed = 2, 7, 5, 1
        sent.listed("namespace", 0.3)
        sent.listed("cluster", 90.0)
        found = {
            (sample.name, *(sample.labels.get(label) for label in ("success", "scope", "le"))): sample.value
            for family in families(self.caches)()
            for sample in family.samples
            if sample.labels.get("resource") == "pods"
        }
        durations = "apiserver_watch_list_duration_seconds_bucket"
        for key, value in {
            ("apiserver_cache_list_total", None, None, None): 2,
            ("apiserver_cache_list_fetched_objects_total", None, None, None): 7,
            ("apiserver_watch_cache_consistent_read_total", "true", None, None): 4,
            ("apiserver_watch_cache_consistent_read_total", "false", None, None): 1,
            (durations, None, "namespace", "0.2"): 0, (durations, None, "namespace", "0.4"): 1,
            (durations, None, "cluster", "60"): 0, (durations, None, "cluster", "+Inf"): 1,
        }.items():  # fmt: skip
            self.assertEqual(found.get(key), value, key)

    def test_how_long_reads_have_waited_is_counted(self) -> None:
        for seconds in (0.0, 0.02, 0.02, 60.0):
            self.pods.reads.waited(seconds)
        [waits] = [family for family in families(self.caches)() if "read_wait" in family.name]
        values = {sample.labels.get("le", sample.name): sample.value for sample in waits.samples}
        self.assertEqual((values["0.005"], values["0.025"], values["+Inf"]), (1, 3, 4))
        self.assertEqual((values[f"{waits.name}_count"], values[f"{waits.name}_sum"]), (4, 60.04))


class Memory(CacheTest):
    def test_the_garbage_collector_passes_by_what_there_is_for_each_object(self) -> None:
        """It stops everything while it looks: at a hundred thousand objects for almost half a second."""

        def tracked() -> int:
            gc.collect()
            return sum("watchcache" in repr(type(thing)) for thing in gc.get_objects())

        self.create("first")
        before = tracked()
        for number in range(500):
            revision = self.create(f"p{number}")
            self.update(f"p{number}", revision, node="n")
        self.assertLess(tracked() - before, 10)
        self.assertEqual(len(self.pods), 501)
