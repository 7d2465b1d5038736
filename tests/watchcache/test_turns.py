"""Many watches that send what waits for them take turns, with others in between."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from kapi.watchcache import watch
from kapi.watchcache.event import Batch
from kapi.watchcache.turns import Turns
from tests.watchcache.cache_case import CacheTest, Client

_HALF = 0.006  # seconds: two of them are more than a turn has


class Stepped(SynchronousTestCase):
    """Time passes only while something is sent, and each turn is asked for."""

    def setUp(self) -> None:
        self.now = 0.0
        self.calls: list[Callable[[], None]] = []
        self.turns = Turns(self.calls.append, lambda: self.now)
        self.sent: list[str] = []

    def send(self, name: str, seconds: float = _HALF) -> Callable[[], None]:
        def send() -> None:
            self.sent.append(name)
            self.now += seconds

        return send

    def turn(self) -> list[str]:
        """What is sent in the next turn."""
        self.sent.clear()
        calls, self.calls[:] = self.calls[:], []
        for call in calls:
            call()
        return self.sent[:]

    def test_those_that_find_the_turn_used_up_wait_in_order(self) -> None:
        for name in "abcdef":
            self.turns.run(self.send(name))
        self.assertEqual(self.sent, ["a", "b"])
        self.assertEqual([self.turn() for _ in range(4)], [["c"], ["d", "e"], ["f"], []])
        self.assertEqual(self.calls, [])

    def test_small_ones_are_all_sent_at_once(self) -> None:
        for name in "abcdef":
            self.turns.run(self.send(name, 0.0001))
        self.assertEqual((self.sent, self.calls), (["a", "b", "c", "d", "e", "f"], []))

    def test_one_that_has_more_waits_behind_the_others(self) -> None:
        def more() -> None:
            self.send("more")()
            self.turns.wait(self.send("rest"))

        self.turns.wait(more)
        for name in "ab":
            self.turns.wait(self.send(name))
        self.assertEqual([self.turn() for _ in range(3)], [["more", "a"], ["b", "rest"], []])


class Watches(CacheTest):
    def test_many_that_begin_or_read_again_do_not_share_one_turn(self) -> None:
        self.create("a")
        now, calls = [0.0], list[Callable[[], None]]()
        self.caches.turns = Turns(calls.append, lambda: now[0])
        clients = [Client() for _ in range(10)]

        def turns() -> int:
            count = 0
            while calls:
                calls.pop(0)()
                count += 1
            return count

        def begin(client: Client) -> None:
            def slow(batch: Batch) -> None:
                now[0] += 1.0
                client.batches.append(batch)
                client.watch.pause()

            client.watch = self.pods.watch(None, slow, client.ends.append, initial_events=True, initial_end=True)

        for client in clients:
            begin(client)
        self.assertGreaterEqual(turns(), len(clients))
        self.assertEqual([len(client.batches) for client in clients], [1] * len(clients))
        for client in clients:
            client.watch.resume()
        self.assertEqual([len(client.batches) for client in clients], [2] + [1] * (len(clients) - 1))
        self.assertGreaterEqual(turns(), len(clients) - 1)
        self.assertEqual([len(client.batches) for client in clients], [2] * len(clients))

    def test_one_whose_batches_take_long_does_not_send_them_in_one_turn(self) -> None:
        now, calls = [0.0], list[Callable[[], None]]()
        self.patch(watch, "perf_counter", lambda: now[0])
        self.caches.turns = Turns(calls.append, lambda: now[0])
        for seconds, sent in ((1.0, [1, 1, 1]), (0.0, [3])):
            client = Client()

            def take(batch: Batch, client: Client = client, seconds: float = seconds) -> None:
                now[0] += seconds
                client.batches.append(batch)

            client.watch = self.pods.watch(None, take, client.ends.append)
            client.watch.pause()
            for name in "abc":
                self.create(f"{name}{seconds}")
                self.turn()
            counts = []
            client.watch.resume()
            while True:
                counts.append(len(client.batches) - sum(counts))
                if not calls:
                    break
                calls.pop(0)()
            self.assertEqual([count for count in counts if count], sent)
