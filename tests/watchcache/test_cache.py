"""The watch cache over a store in memory: reading, watching, paging, bounds."""

from __future__ import annotations

import gc
import sys
from typing import Any

import orjson
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.machinery.status import Timeout
from kapi.request.pending import Pending
from kapi.store.errors import Compacted
from kapi.store.memory import MemoryStore
from kapi.watchcache.caches import Caches
from kapi.watchcache.event import Batch
from kapi.watchcache.metrics import families
from kapi.watchcache.sent import Sent
from kapi.watchcache.watch import Watch

PODS = GroupResource("", "pods")


def halves(name: str, namespace: str = "ns", node: str = "", **labels: str) -> tuple[bytes, bytes]:
    rest: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        rest["labels"] = labels
    tail = b'",' + orjson.dumps(rest)[1:]
    spec = orjson.dumps({"nodeName": node})
    return b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"', tail + b',"spec":' + spec + b"}"


class Client:
    """A watcher that writes down what it is told."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.ends: list[Exception | None] = []
        self.watch: Watch

    @property
    def told(self) -> list[tuple[str, str, int]]:
        out = []
        for batch in self.batches:
            for event in batch.events:
                key = event.entry.key if event.entry is not None else ("END" if event.initial_end else "")
                out.append((event.type, key, event.revision))
                if event.entry is not None:
                    assert event.object["metadata"]["resourceVersion"] == str(event.revision)
        return out


class CacheTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore()
        self.open()

    def open(self, **options: Any) -> None:
        self.caches = Caches(self.store, self.clock, **options)
        self.pods = self.caches.cache(PODS, {"spec.nodeName": lambda obj: obj["spec"].get("nodeName", "")}, True)
        self.run_async(self.caches.start())

    def run_async(self, coroutine: Any) -> Any:
        from twisted.internet.defer import ensureDeferred

        return self.successResultOf(ensureDeferred(coroutine))

    def create(self, name: str, namespace: str = "ns", **more: str) -> int:
        return int(self.run_async(self.store.create(f"core/pods/{namespace}/{name}", *halves(name, namespace, **more))))

    def update(self, name: str, revision: int, namespace: str = "ns", **more: str) -> int:
        key = f"core/pods/{namespace}/{name}"
        return int(self.run_async(self.store.update(key, revision, *halves(name, namespace, **more))))

    def delete(self, name: str, revision: int, namespace: str = "ns", **more: str) -> int:
        key = f"core/pods/{namespace}/{name}"
        return int(self.run_async(self.store.delete(key, revision, *halves(name, namespace, **more))))

    def watch(self, since: int | None = None, labels: str = "", fields: str = "", **options: Any) -> Client:
        client = Client()
        predicate = Predicate(parse_labels(labels), parse_fields(fields))
        client.watch = self.pods.watch(since, client.batches.append, client.ends.append, predicate=predicate, **options)
        self.turn()
        return client

    def turn(self) -> None:
        for _ in range(20):
            self.clock.advance(0)

    def keys(self, entries: Any) -> list[str]:
        return [entry.key for entry in entries]


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
        with self.assertRaises(Compacted) as caught:
            self.pods.list_at(1)
        self.assertEqual(caught.exception.oldest, 3)
        with self.assertRaises(Compacted):
            self.watch(1)
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


class Watching(CacheTest):
    def test_from_now(self) -> None:
        a = self.create("a")
        client = self.watch()
        a = self.update("a", a)
        self.create("b")
        self.delete("a", a)
        self.assertEqual(client.told, [], "nothing is delivered in the middle of a turn")
        self.turn()
        self.assertEqual(client.told, [("MODIFIED", "ns/a", 2), ("ADDED", "ns/b", 3), ("DELETED", "ns/a", 4)])
        self.assertEqual(len(client.batches), 1)

    def test_from_a_revision(self) -> None:
        a = self.create("a")
        self.create("b")
        client = self.watch(1)
        self.update("a", a)
        self.turn()
        self.assertEqual(client.told, [("ADDED", "ns/b", 2), ("MODIFIED", "ns/a", 3)])

    def test_starting_in_the_middle_of_a_turn_repeats_nothing(self) -> None:
        early = self.watch()
        self.create("a")
        client = Client()
        self.pods.watch(0, client.batches.append, client.ends.append)
        self.create("b")
        late = Client()
        self.pods.watch(None, late.batches.append, late.ends.append)
        self.turn()
        self.assertEqual(client.told, [("ADDED", "ns/a", 1), ("ADDED", "ns/b", 2)])
        self.assertEqual(early.told, client.told)
        self.assertEqual(late.told, [])

    def test_from_a_revision_to_come(self) -> None:
        client = self.watch(2)
        self.create("a")
        self.create("b")
        self.create("c")
        self.turn()
        self.assertEqual(client.told, [("ADDED", "ns/c", 3)])

    def test_initial_events_and_their_end(self) -> None:
        self.create("b", app="web")
        self.create("a", app="web")
        self.create("c")
        client = self.watch(None, "app=web", initial_events=True, initial_end=True)
        self.create("d", app="web")
        self.turn()
        self.assertEqual(
            client.told,
            [("ADDED", "ns/a", 2), ("ADDED", "ns/b", 1), ("BOOKMARK", "END", 3), ("ADDED", "ns/d", 4)],
        )

    def test_namespace_and_name(self) -> None:
        everything, one_namespace = self.watch(), self.watch(namespace="ns")
        one, by_field = self.watch(namespace="ns", name="a"), self.watch(fields="metadata.name=a")
        self.create("a")
        self.create("a", "other")
        self.create("b")
        self.turn()
        self.assertEqual([key for _, key, _ in everything.told], ["ns/a", "other/a", "ns/b"])
        self.assertEqual([key for _, key, _ in one_namespace.told], ["ns/a", "ns/b"])
        self.assertEqual([key for _, key, _ in one.told], ["ns/a"])
        self.assertEqual([key for _, key, _ in by_field.told], ["ns/a", "other/a"])
        self.assertEqual([key for _, key, _ in self.watch(0, namespace="ns", name="a").told], ["ns/a"])

    def test_entering_and_leaving_a_selection(self) -> None:
        clients = [self.watch(labels="app=web"), self.watch(fields="spec.nodeName=n1")]
        a = self.create("a", node="n1", app="web")
        a = self.update("a", a, node="n1", app="web", more="x")
        a = self.update("a", a, node="n2", app="db")
        a = self.update("a", a, node="n2", app="db", more="x")
        a = self.update("a", a, node="n1", app="web")
        self.delete("a", a, node="n1", app="web")
        self.turn()
        expected = [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 3), ("ADDED", 5), ("DELETED", 6)]
        clients += [self.watch(0, "app=web"), self.watch(0, "", "spec.nodeName=n1")]
        for client in clients:
            self.assertEqual([(type, revision) for type, _, revision in client.told], expected)
        left = clients[0].batches[0].events[2]
        self.assertEqual(left.object["metadata"]["labels"], {"app": "web", "more": "x"}, "the last selected state")
        self.assertIn(b'"resourceVersion":"3"', left.json)

    def test_unselected_changes_cost_watchers_of_other_values_nothing(self) -> None:
        client = self.watch(fields="spec.nodeName=n1")
        for n in range(10):
            self.create(f"p{n}", node="n2")
        self.turn()
        self.assertEqual(client.batches, [])

    def test_events_are_encoded_once_for_all(self) -> None:
        clients = [self.watch() for _ in range(3)] + [self.watch(labels="app")]
        self.create("a", app="x")
        self.create("b", app="x")
        self.turn()
        encoded: list[int] = []

        def encode(event: Any) -> bytes:
            encoded.append(event.revision)
            return bytes(event.json)

        lines = {client.batches[0].encoded("json", encode, Sent()) for client in clients}
        self.assertEqual(encoded, [1, 2])
        (text,) = lines
        self.assertEqual([orjson.loads(line)["object"]["metadata"]["name"] for line in text.splitlines()], ["a", "b"])

    def test_stopped_watch_hears_nothing_more(self) -> None:
        client = self.watch()
        self.create("a")
        client.watch.stop()
        self.turn()
        self.assertEqual((client.told, client.ends, self.pods.watches), ([], [], 0))

    def test_paused_watch_gets_everything_later(self) -> None:
        a = self.create("a")
        client = self.watch(0)
        client.watch.pause()
        self.update("a", a)
        self.turn()
        self.create("b")
        self.turn()
        self.assertEqual(len(client.told), 1)
        client.watch.resume()
        self.turn()
        self.create("c")
        self.turn()
        self.assertEqual([revision for _, _, revision in client.told], [1, 2, 3, 4])

    def test_a_pause_in_the_middle_of_the_initial_events(self) -> None:
        for n in range(1200):
            self.create(f"p{n:04}")
        client = Client()

        def slow(batch: Batch) -> None:
            client.batches.append(batch)
            client.watch.pause()

        client.watch = self.pods.watch(None, slow, client.ends.append, initial_events=True, initial_end=True)
        self.turn()
        seen = len(client.batches)
        self.assertEqual(seen, 1)
        self.create("new")
        for _ in range(10):
            client.watch.resume()
            self.turn()
        told = client.told
        self.assertEqual([key for _, key, _ in told], [*(f"ns/p{n:04}" for n in range(1200)), "END", "ns/new"])

    def reader_of_the_past(self, since: int) -> Client:
        """A watcher that pauses after each batch."""
        client = Client()

        def slow(batch: Batch) -> None:
            client.batches.append(batch)
            client.watch.pause()

        client.watch = self.pods.watch(since, slow, client.ends.append)
        self.turn()
        return client

    def test_a_pause_in_the_middle_of_the_past(self) -> None:
        for n in range(1200):
            self.create(f"p{n:04}")
        client = self.reader_of_the_past(1)
        self.assertEqual(len(client.batches), 1)
        self.create("new")
        for _ in range(10):
            client.watch.resume()
            self.turn()
        self.assertEqual([key for _, key, _ in client.told], [*(f"ns/p{n:04}" for n in range(1, 1200)), "ns/new"])

    def test_who_does_not_read_keeps_no_history(self) -> None:
        self.open(history_bytes=200_000)
        for n in range(1200):
            self.create(f"p{n:04}")
        since = self.caches.floor
        client = self.reader_of_the_past(since)
        last = client.told[-1][2]
        newest = self.pods._history.events[-1]
        self.assertLess(last, 1200)
        for n in range(1200, 4000):
            self.create(f"p{n:04}")
            if not n % 100:
                self.turn()
                self.caches.trim()
        self.assertGreater(self.caches.floor, 1200)
        self.assertEqual(sys.getrefcount(newest), 2)  # this name and the argument
        client.watch.resume()
        self.turn()
        self.assertEqual([type(end) for end in client.ends], [Compacted])
        self.assertEqual(client.told[-1][2], last)

    def reader_of_all(self, labels: str = "") -> Client:
        """A watcher that begins with all objects and pauses after each batch."""
        client = Client()

        def slow(batch: Batch) -> None:
            client.batches.append(batch)
            client.watch.pause()

        predicate = Predicate(parse_labels(labels), parse_fields(""))
        client.watch = self.pods.watch(
            None, slow, client.ends.append, predicate=predicate, initial_events=True, initial_end=True
        )
        self.turn()
        return client

    def test_what_a_slow_reader_begins_with_is_as_it_was(self) -> None:
        for n in range(1200):
            self.create(f"p{n:04}")
        client = self.reader_of_all()
        changed = self.update("p1199", 1200)
        self.delete("p1100", 1101)
        self.create("new")
        self.turn()
        for _ in range(10):
            client.watch.resume()
            self.turn()
        keys = [key for _, key, _ in client.told]
        self.assertEqual(keys[:1201], [*(f"ns/p{n:04}" for n in range(1200)), "END"])
        self.assertEqual(client.told[1199], ("ADDED", "ns/p1199", 1200))
        self.assertEqual(client.told[1201:3 + 1201], [
            ("MODIFIED", "ns/p1199", changed), ("DELETED", "ns/p1100", changed + 1), ("ADDED", "ns/new", changed + 2),
        ])  # fmt: skip

    def test_who_does_not_read_holds_none_of_the_objects_and_begins_anew_without_history(self) -> None:
        self.open(history_bytes=200_000)
        for n in range(1200):
            self.create(f"p{n:04}", app="other" if n == 1199 else "web")
        client = self.reader_of_all("app!=other")
        replaced = self.pods.get("ns", "p1199")
        self.update("p1199", 1200, app="other")
        for n in range(1200, 4000):
            self.create(f"p{n:04}")
            if not n % 100:
                self.turn()
                self.caches.trim()
        self.assertEqual(sys.getrefcount(replaced), 2)  # this name and the argument
        client.watch.resume()
        self.turn()
        self.assertEqual([type(end) for end in client.ends], [Compacted])

    def test_all_queues_together_have_a_bound_and_the_slowest_goes(self) -> None:
        self.create("probe")
        probe = self.pods.get("ns", "probe")
        assert probe is not None
        self.caches.pending = Pending(self.clock.seconds, 10 * len(probe.data))
        slowest, slow, quick = self.watch(labels="a!=1"), self.watch(labels="a!=2"), self.watch()
        slowest.watch.pause()
        self.create("p0")
        self.turn()
        self.clock.advance(1)
        slow.watch.pause()
        for n in range(1, 4):
            self.create(f"p{n}")
            self.turn()
        self.assertEqual((slowest.ends, slow.ends), ([], []))
        self.clock.advance(1.5)
        for n in range(4, 7):
            self.create(f"p{n}")
            self.turn()
        self.assertEqual((slowest.ends, slow.ends, quick.ends), ([None], [], []))
        self.assertEqual((self.pods.terminated, len(quick.told)), (1, 7))
        slow.watch.resume()
        self.turn()
        slow.batches.clear()
        quick.batches.clear()
        gc.collect()
        self.assertEqual(self.caches.pending.size, 0)

    def test_slow_watch_is_cut_off_and_counted_and_others_do_not_notice(self) -> None:
        self.pods.longest_queue = 10
        slow, quick = self.watch(), self.watch()
        slow.watch.pause()
        for n in range(12):
            self.create(f"p{n}")
            self.turn()
        self.assertEqual(slow.ends, [None])
        self.assertEqual(self.pods.terminated, 1)
        self.assertEqual((len(quick.told), quick.ends), (12, []))
        slow.watch.resume()
        self.assertEqual(slow.told, [])

    def test_large_objects_count_by_their_size(self) -> None:
        self.create("probe")
        probe = self.pods.get("ns", "probe")
        assert probe is not None
        self.pods.largest_queue = 5 * len(probe.data)
        slow, quick = self.watch(), self.watch()
        slow.watch.pause()
        for n in range(4):
            self.create(f"p{n}")
            self.turn()
        slow.watch.resume()
        self.turn()
        self.assertEqual((len(slow.told), slow.ends), (4, []))
        slow.watch.pause()  # what was delivered counts no more
        for n in range(4, 11):
            self.create(f"p{n}")
            self.turn()
        self.assertEqual((slow.ends, quick.ends, len(quick.told)), ([None], [], 11))

    def test_thousands_are_told_of_their_end_in_several_turns(self) -> None:
        clients = [self.watch() for _ in range(180)]
        gone = clients[170]
        self.caches.remove(PODS)
        told = sum(len(client.ends) for client in clients)
        self.assertEqual(told, 50)
        self.create("later")
        gone.watch.stop()
        for _ in range(5):
            for call in [call for call in self.clock.calls if call.time <= self.clock.rightNow]:
                self.clock.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)
            ends = sum(len(client.ends) for client in clients)
            self.assertLessEqual(ends - told, 50)
            told = ends
        self.assertEqual([client.ends for client in clients if client is not gone], [[None]] * 179)
        self.assertEqual((gone.ends, [client for client in clients if client.told]), ([], []))

    def test_when_the_server_stops_all_are_told_at_once(self) -> None:
        clients = [self.watch() for _ in range(180)]
        self.run_async(self.caches.stop())
        self.assertEqual([client.ends for client in clients], [[None]] * 180)

    def test_a_watcher_that_fails_is_ended(self) -> None:
        client = Client()

        def broken(batch: Batch) -> None:
            raise RuntimeError("no")

        self.pods.watch(None, broken, client.ends.append)
        other = self.watch()
        self.create("a")
        self.turn()
        self.assertEqual((client.ends, len(other.told)), ([None], 1))
        self.flushLoggedErrors(RuntimeError)

    def test_bookmarks_about_once_a_minute(self) -> None:
        client, without = self.watch(bookmarks=True), self.watch()
        self.create("a")
        self.run_async(self.store.create("core/secrets/ns/s", *halves("s")))
        for _ in range(125):
            self.clock.advance(1)
        self.assertEqual(client.told, [("ADDED", "ns/a", 1), ("BOOKMARK", "", 2), ("BOOKMARK", "", 2)])
        self.assertEqual(without.told, [("ADDED", "ns/a", 1)])

    def test_bookmark_before_the_timeout(self) -> None:
        client = self.watch(bookmarks=True, timeout=10)
        for _ in range(7):
            self.clock.advance(1)
        self.assertEqual(client.told, [])
        for _ in range(3):
            self.clock.advance(1)
        self.assertEqual(client.told, [("BOOKMARK", "", 0)])

    def test_bookmark_never_overtakes_events(self) -> None:
        client = self.watch(bookmarks=True)
        self.clock.advance(59)
        client.watch.pause()
        self.create("a")
        self.clock.advance(5)
        client.watch.resume()
        self.turn()
        self.assertEqual(client.told, [("ADDED", "ns/a", 1)])

    def test_a_gap_in_the_history_ends_watches_with_410(self) -> None:
        client = self.watch()
        self.caches.reset([], [], 50)
        (error,) = client.ends
        self.assertIsInstance(error, Compacted)
        self.assertEqual(self.pods.list(), ([], 50))
        with self.assertRaises(Compacted):
            self.watch(49)

    def test_stop_and_removal_end_watches(self) -> None:
        client, other = self.watch(), Client()
        self.caches.cache(GroupResource("", "nodes")).watch(None, other.batches.append, other.ends.append)
        self.caches.remove(PODS)
        self.assertEqual((client.ends, other.ends), ([None], []))
        self.run_async(self.caches.stop())
        self.assertEqual(other.ends, [None])


class Metrics(CacheTest):
    def test_what_is_counted(self) -> None:
        self.create("a")
        self.watch()
        self.create("b")
        self.turn()
        named = {family.name: family.samples for family in families(self.caches)()}
        values = {
            name: samples[0].value
            for name, samples in named.items()
            if samples and samples[0].labels in ({"group": "", "resource": "pods"}, {"resource": "pods"})
        }
        self.assertEqual(values["apiserver_watch_cache_events_received"], 2)
        self.assertEqual(values["apiserver_watch_cache_events_dispatched"], 1)
        self.assertEqual(values["apiserver_terminated_watchers"], 0)
        self.assertEqual(values["apiserver_watch_cache_resource_version"], 2)
        self.assertEqual(values["apiserver_storage_objects"], 2)
        self.assertEqual(
            values["apiserver_resource_size_estimate_bytes"], sum(len(e.data) for e in self.pods.list()[0])
        )


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
