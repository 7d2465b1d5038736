"""Caches of two processes over one server: reads are linearizable, both see the same history."""

from __future__ import annotations

from typing import Any

from twisted.internet import defer, reactor
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import Timeout
from kapi.store.entries import Skipped
from kapi.store.errors import StoreUnavailable
from kapi.store.factory import external_store
from kapi.store.interface import CREATED, Change
from kapi.watchcache.caches import Caches
from kapi.watchcache.freshness import Freshness
from tests.store.servers import Server
from tests.watchcache.cache_case import Client, halves

PODS = GroupResource("", "pods")


class SharedCaches(TestCase):
    async def setUp(self) -> None:
        self.server = Server()
        self.caches = [Caches(external_store(self.server.url, reactor), reactor) for _ in range(2)]
        for caches in self.caches:
            await caches.start()

    async def tearDown(self) -> None:
        for caches in self.caches:
            await caches.stop()
        self.server.stop()

    async def test_what_one_acknowledged_the_other_reads(self) -> None:
        for n in range(200):
            writer, reader = self.caches[n % 2], self.caches[1 - n % 2]
            await writer.store.create(f"core/pods/ns/p{n}", *halves(f"p{n}"))
            waiting = reader.wait_fresh()
            assert waiting is not None
            await waiting
            self.assertIsNotNone(reader.cache(PODS).get("ns", f"p{n}"))

    async def test_both_see_one_history(self) -> None:
        clients = []
        for caches in self.caches:
            client = Client()
            client.watch = caches.cache(PODS).watch(0, client.batches.append, client.ends.append)
            clients.append(client)

        async def write(number: int) -> None:
            store = self.caches[number % 2].store
            for n in range(50):
                key = f"core/pods/ns/p{number}-{n}"
                revision = await store.create(key, *halves(f"p{number}-{n}"))
                await store.update(key, revision, *halves(f"p{number}-{n}"))

        await defer.gatherResults([defer.ensureDeferred(write(number)) for number in range(8)])
        for caches in self.caches:
            waiting = caches.wait_fresh()
            if waiting is not None:
                await waiting
        done: defer.Deferred[None] = defer.Deferred()
        reactor.callLater(0.05, done.callback, None)
        await done
        self.assertEqual([revision for _, _, revision in clients[0].told], list(range(1, 801)))
        self.assertEqual(clients[0].told, clients[1].told)


class LoadingStore:
    """A store that others write to; the test says when its state is loaded."""

    exclusive = False

    def __init__(self) -> None:
        self.skipped = Skipped()
        self.loading: defer.Deferred[int] = defer.Deferred()
        self.newest = 0
        self.follower: Any = None

    async def start(self, follower: Any) -> None:
        self.follower = follower
        follower.reset([], [], await self.loading)

    async def stop(self) -> None:
        pass

    async def revision(self) -> int:
        return self.newest


class FirstLoad(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = LoadingStore()
        self.caches = Caches(self.store, Clock())  # type: ignore[arg-type]
        self.started = defer.Deferred.fromCoroutine(self.caches.start())

    def test_a_read_that_came_before_it_sees_what_was_written_meanwhile(self) -> None:
        """What is loaded may be older than the read, and another server has acknowledged a write since."""
        reading = self.caches.wait_fresh()
        assert reading is not None
        self.store.newest = 7
        self.store.loading.callback(6)
        self.successResultOf(self.started)
        self.assertNoResult(reading)
        head, tail = halves("p")
        self.store.follower.changed([Change(7, CREATED, "core/pods/ns/p", head + b"7" + tail)])
        self.successResultOf(reading)

    def test_a_read_that_came_before_it_does_not_wait_for_a_server_that_ends(self) -> None:
        reading = self.caches.wait_fresh()
        assert reading is not None
        self.successResultOf(defer.Deferred.fromCoroutine(self.caches.stop()))
        self.failureResultOf(reading, StoreUnavailable)


class AskedStore:
    """A store whose answers to ``revision`` are given by the test."""

    def __init__(self) -> None:
        self.questions: list[defer.Deferred[int]] = []

    def revision(self) -> defer.Deferred[int]:
        self.questions.append(defer.Deferred())
        return self.questions[-1]


class OneQuestionServesAll(SynchronousTestCase):
    def setUp(self) -> None:
        self.store: Any = AskedStore()
        self.at = 5
        self.clock = Clock()
        self.freshness = Freshness(self.store, self.clock, lambda: self.at)

    def test_who_comes_during_a_question_shares_the_next(self) -> None:
        first = self.freshness.ask()
        later = [self.freshness.ask() for _ in range(10)]
        self.assertEqual(len(self.store.questions), 1)
        self.store.questions[0].callback(5)
        self.successResultOf(first)
        self.assertEqual(len(self.store.questions), 2)
        for deferred in later:
            self.assertNoResult(deferred)
        self.store.questions[1].callback(7)
        self.assertNoResult(later[0])
        self.at = 7
        self.freshness.advanced()
        for deferred in later:
            self.successResultOf(deferred)

    def test_an_answer_that_does_not_come_fails_the_read(self) -> None:
        asked = self.freshness.ask()
        self.store.questions[0].errback(StoreUnavailable("away"))
        self.failureResultOf(asked, StoreUnavailable)
        again = self.freshness.ask()
        self.store.questions[1].callback(1)
        self.successResultOf(again)

    def test_a_read_waits_for_its_revision_and_no_later_one(self) -> None:
        self.assertIsNone(self.freshness.wait_for(5))
        waiting = {revision: self.freshness.wait_for(revision) for revision in (8, 6, 7)}
        self.at = 7
        self.freshness.advanced()
        for revision, deferred in waiting.items():
            assert deferred is not None
            if revision > 7:
                self.assertNoResult(deferred)
            else:
                self.successResultOf(deferred)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.clock.advance(2.9)
        late = waiting[8]
        assert late is not None
        self.assertNoResult(late)
        self.clock.advance(0.1)
        self.assertIn("Too large resource version: 8, current: 7", str(self.failureResultOf(late, Timeout).value))
        self.at = 8
        self.freshness.advanced()

    def test_a_store_that_stops_fails_all_who_wait(self) -> None:
        waiting, gone = self.freshness.wait_for(6), self.freshness.wait_for(7)
        assert waiting is not None and gone is not None
        gone.addErrback(lambda failure: failure.trap(defer.CancelledError))
        gone.cancel()
        asked = self.freshness.ask()
        self.store.questions[0].callback(9)
        self.freshness.stop(StoreUnavailable("stopped"))
        for each in (waiting, asked):
            self.failureResultOf(each, StoreUnavailable)
        self.successResultOf(gone)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.at = 9
        self.freshness.advanced()

    def test_a_reader_that_goes_away_disturbs_nobody(self) -> None:
        gone, stays = self.freshness.ask(), self.freshness.ask()
        gone.addErrback(lambda failure: failure.trap(defer.CancelledError))
        gone.cancel()
        self.store.questions[0].callback(5)
        self.store.questions[1].callback(5)
        self.successResultOf(stays)
