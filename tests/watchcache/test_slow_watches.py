"""Watches whose clients read slowly, or not at all."""

from __future__ import annotations

import gc

from kapi.machinery.freeing import is_unused
from kapi.request.pending import Pending
from kapi.store.errors import Compacted
from kapi.watchcache.event import Batch
from tests.watchcache.cache_case import PODS, Client
from tests.watchcache.watching_case import WatchingCase


class SlowWatches(WatchingCase):
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
        newest: list[object] = [self.pods._history.events[-1]]
        self.assertLess(last, 1200)
        for n in range(1200, 4000):
            self.create(f"p{n:04}")
            if not n % 100:
                self.turn()
                self.caches.trim()
        self.assertGreater(self.caches.floor, 1200)
        self.assertTrue(is_unused(newest))
        client.watch.resume()
        self.turn()
        self.assertEqual([type(end) for end in client.ends], [Compacted])
        self.assertEqual(client.told[-1][2], last)

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
        replaced: list[object] = [self.pods.get("ns", "p1199")]
        self.update("p1199", 1200, app="other")
        for n in range(1200, 4000):
            self.create(f"p{n:04}")
            if not n % 100:
                self.turn()
                self.caches.trim()
        self.assertTrue(is_unused(replaced))
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

    def test_one_that_leaves_a_single_event_unread_is_slow_as_well(self) -> None:
        self.create("probe")
        probe = self.pods.get("ns", "probe")
        assert probe is not None
        self.caches.pending = Pending(self.clock.seconds, 5 * len(probe.data))
        slowest, slow = self.watch(labels="a=b"), self.watch()
        slowest.watch.pause()
        self.create("p0", a="b")
        self.turn()
        self.clock.advance(100)
        slow.watch.pause()
        for n in range(1, 9):
            self.create(f"p{n}")
            self.turn()
        self.assertEqual((slowest.ends, slow.ends), ([None], []))

    def test_slow_watch_is_cut_off_and_counted_and_others_do_not_notice(self) -> None:
        self.pods.max_queued_events = 10
        slow, quick = self.watch(), self.watch()
        slow.watch.pause()
        for n in range(12):
            self.create(f"p{n}")
            self.turn()
            self.assertEqual(slow.ends, [None] if n >= 10 else [])
        self.assertEqual(self.pods.terminated, 1)
        self.assertEqual((len(quick.told), quick.ends), (12, []))
        slow.watch.resume()
        self.assertEqual(slow.told, [])

    def test_large_objects_count_by_their_size(self) -> None:
        self.create("probe")
        probe = self.pods.get("ns", "probe")
        assert probe is not None
        self.pods.max_queued_bytes = 5 * len(probe.data)
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
