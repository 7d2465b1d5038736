"""Watches: what they are told, when, and when they are ended."""

from __future__ import annotations

from typing import Any

import orjson

from kapi.machinery.gvk import GroupResource
from kapi.store.errors import Compacted
from kapi.watchcache.counts import Sent
from kapi.watchcache.event import Batch
from kapi.watchcache.watch import BookmarkWheel
from tests.watchcache.cache_case import PODS, Client, halves
from tests.watchcache.watching_case import WatchingCase


class Watching(WatchingCase):
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

    def test_a_watch_that_has_ended_is_due_for_no_bookmark(self) -> None:
        one, other = (self.watch(bookmarks=True).watch for _ in range(2))
        wheel = BookmarkWheel(self.clock.seconds)
        for watch in (one, other):
            wheel.add(watch)
        wheel.discard(one)
        self.clock.advance(61)
        self.assertEqual(wheel.turn(), [other])
        wheel.discard(other)
        wheel.discard(other)
        self.clock.advance(61)
        self.assertEqual(wheel.turn(), [])

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

    def test_a_watch_that_ends_when_its_bookmark_is_due_gets_none(self) -> None:
        """Neither when events end it that are sent before the bookmarks, nor when the bookmark of another watch does."""
        first, second, third = Client(), Client(), Client()

        def end_second(batch: Batch) -> None:
            first.batches.append(batch)
            second.watch.cut_off()

        def fail(batch: Batch) -> None:
            third.batches.append(batch)
            raise RuntimeError("an event that cannot be sent")

        for client, on_batch in ((first, end_second), (second, second.batches.append), (third, fail)):
            client.watch = self.pods.watch(
                None, on_batch, client.ends.append, bookmarks=True, name="a" if client is third else "b"
            )
        self.clock.rightNow += 60
        self.create("a")
        self.caches.tick()
        self.assertEqual((first.told, first.ends), ([("BOOKMARK", "", 1)], []))
        self.assertEqual((second.told, second.ends), ([], [None]))
        self.assertEqual((third.told, third.ends), ([("ADDED", "ns/a", 1)], [None]))
        self.flushLoggedErrors(RuntimeError)

    def test_a_gap_in_the_history_ends_watches_with_410(self) -> None:
        client = self.watch()
        self.caches.reset([], [], 50)
        (error,) = client.ends
        self.assertIsInstance(error, Compacted)
        self.assertEqual(str(error), "too old resource version: 0 (50)")
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
