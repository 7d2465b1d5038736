"""Caches of several stores as those of one."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.gvk import GroupResource
from kapi.store.errors import Compacted, StoreUnavailable, UnsuitableStore
from kapi.watchcache import fan_out
from kapi.watchcache.event_log import HISTORY_SECONDS
from kapi.watchcache.split_caches import caught_up
from tests.watchcache.cache_case import Client, halves
from tests.watchcache.split import SplitRegistry

MAPS, SECRETS = GroupResource("", "configmaps"), GroupResource("", "secrets")


class Told:
    """An observer of everything."""

    def __init__(self) -> None:
        self.names: list[str] = []

    marks = (b"{",)

    def concerns(self, event: Any) -> bool:
        return True

    def changed(self, events: Any) -> None:
        self.names += [event.entry.name for _, event in events]

    def loaded(self, caches: Any) -> None:
        pass


class Split(SynchronousTestCase):
    def setUp(self) -> None:
        self.made = SplitRegistry(SECRETS)
        self.caches = self.made.caches

    def start(self) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.caches.start()))

    def write(self, store: Any, key: str) -> int:
        return self.successResultOf(Deferred.fromCoroutine(store.create(key, *halves(key.rpartition("/")[2]))))

    def test_each_resource_has_the_revisions_of_its_store(self) -> None:
        self.start()
        for name in ("a", "b", "c"):
            self.write(self.made.main, f"core/configmaps/ns/{name}")
        self.assertEqual(self.write(self.made.other, "core/secrets/ns/s"), 1)
        self.made.pass_time(0.1)
        maps, secrets = self.caches.cache(MAPS), self.caches.cache(SECRETS)
        self.assertEqual([(cache.revision, len(cache)) for cache in (maps, secrets)], [(3, 3), (1, 1)])
        self.assertIs(secrets, self.made.registry.stores[SECRETS].cache)
        self.assertIsNone(secrets.wait_for(1))
        self.assertIsNotNone(secrets.wait_for(2))

    def test_what_another_store_keeps_is_counted_and_not_held(self) -> None:
        for name in ("a", "b"):
            self.write(self.made.main, f"core/secrets/ns/{name}")
        self.write(self.made.other, "core/configmaps/ns/c")
        self.start()
        self.write(self.made.main, "core/secrets/ns/later")
        self.write(self.made.main, "core/configmaps/ns/here")
        self.made.pass_time(0.1)
        self.assertEqual([len(self.caches.cache(resource)) for resource in (SECRETS, MAPS)], [0, 1])
        known = [str(cache.resource) for cache in self.caches.all()]
        self.assertEqual(len(known), len(set(known)))
        told = [part.store_warnings() for part in self.caches.parts]
        self.assertEqual(
            told, [f"{found} are in a store that does not keep them" for found in ("2 secrets", "1 configmaps")]
        )
        self.assertEqual([part.revision for part in self.caches.parts], [4, 1])

    def test_each_store_has_one_turn_a_second(self) -> None:
        turns: list[int] = []
        for number, part in enumerate(self.caches.parts):
            self.patch(part.bookmarks, "turn", lambda number=number: turns.append(number) or [])
        self.start()
        turns.clear()
        self.made.pass_time(3.5)
        self.assertEqual(sorted(turns), [0] * 3 + [1] * 3)
        self.successResultOf(Deferred.fromCoroutine(self.caches.stop()))
        self.made.pass_time(1.0)
        self.assertEqual(len(turns), 6)

    def test_observers_are_told_of_what_a_store_had_before_they_go_on(self) -> None:
        self.start()
        observer = Told()
        self.caches.observe(observer)
        self.made.other.lags = True
        self.write(self.made.other, "core/secrets/ns/s")
        waiting = Deferred.fromCoroutine(caught_up(self.caches))
        self.made.pass_time(1)
        self.assertNoResult(waiting)
        self.made.other.catch_up()
        self.made.pass_time(0.1)
        self.successResultOf(waiting)
        self.assertEqual(observer.names, ["s"])
        self.caches.ignore(observer)
        self.write(self.made.other, "core/secrets/ns/t")
        self.write(self.made.main, "core/configmaps/ns/t")
        self.made.pass_time(0.1)
        self.assertEqual(observer.names, ["s"])
        self.successResultOf(Deferred.fromCoroutine(caught_up(self.caches.main)))  # one store: at once

    def test_observers_are_told_first_though_many_watches_take_several_turns(self) -> None:
        """A garbage collector that went on before would not know a dependent whose creation was acknowledged."""
        for name, value in (("_TURN_SECONDS", -1.0), ("_WATCHES_AT_ONCE", 1)):  # one watch a turn
            self.patch(fan_out, name, value)
        self.start()
        observer = Told()
        self.caches.observe(observer)
        secrets, clients = self.caches.cache(SECRETS), [Client() for _ in range(5)]
        for client in clients:
            client.watch = secrets.watch(None, client.batches.append, client.ends.append)
        self.made.other.lags = True
        self.write(self.made.other, "core/secrets/ns/s")
        waiting = Deferred.fromCoroutine(caught_up(self.caches))
        self.made.other.catch_up()
        seen: list[list[str]] = []
        waiting.addCallback(lambda _: seen.append(observer.names[:]))
        self.made.pass_time(3)
        self.assertEqual(seen, [["s"]])
        self.assertEqual([len(client.batches) for client in clients], [1] * 5)
        self.successResultOf(Deferred.fromCoroutine(self.caches.stop()))

    def test_each_store_has_its_own_bookmarks_and_its_own_past(self) -> None:
        self.start()
        clients = []
        for resource, store in ((MAPS, self.made.main), (SECRETS, self.made.other)):
            client = Client()
            cache = self.caches.cache(resource)
            client.watch = cache.watch(None, client.batches.append, client.ends.append, bookmarks=True)
            clients.append(client)
            for number in range(2 if store is self.made.other else 5):
                self.write(store, f"core/{resource.resource}/ns/{number}")
        self.made.pass_time(70)
        self.assertEqual([client.told[-1] for client in clients], [("BOOKMARK", "", 5), ("BOOKMARK", "", 2)])
        self.made.pass_time(HISTORY_SECONDS + 20)
        self.assertEqual([part.floor for part in self.caches.parts], [5, 2])
        for resource, newest in ((MAPS, 5), (SECRETS, 2)):
            cache = self.caches.cache(resource)
            self.assertEqual(len(cache.list_at(newest)), newest)
            self.assertRaises(Compacted, cache.list_at, newest - 1)
        self.successResultOf(Deferred.fromCoroutine(self.caches.stop()))
        self.assertEqual([client.ends for client in clients], [[None], [None]])
        self.assertEqual(self.made.clock.getDelayedCalls(), [])

    def test_a_store_that_is_not_there_lets_none_run(self) -> None:
        stopped: list[Any] = []
        end = self.made.main.stop

        async def fail(follower: Any) -> None:
            raise StoreUnavailable("away")

        async def stop() -> None:
            stopped.append("main")
            await end()

        self.patch(self.made.other, "start", fail)
        self.patch(self.made.main, "stop", stop)
        self.failureResultOf(Deferred.fromCoroutine(self.caches.start()), StoreUnavailable)
        self.assertEqual(stopped, ["main"])
        self.assertEqual(self.made.clock.getDelayedCalls(), [])

    def test_one_that_cannot_be_stopped_keeps_none_from_it(self) -> None:
        self.start()
        ended: list[str] = []

        async def fail() -> None:
            raise RuntimeError("it does not end")

        async def end() -> None:
            ended.append("other")

        self.patch(self.made.main, "stop", fail)
        self.patch(self.made.other, "stop", end)
        self.successResultOf(Deferred.fromCoroutine(self.caches.stop()))
        self.assertEqual(ended, ["other"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_one_store_twice_is_refused(self) -> None:
        for store in (self.made.main, self.made.other):
            self.patch(store, "run", b"same")
        failed = self.failureResultOf(Deferred.fromCoroutine(self.caches.start()), UnsuitableStore)
        self.assertIn("redis-1 is the same store as redis-0", str(failed.value))

    def test_a_fresh_read_of_one_does_not_wait_for_the_other(self) -> None:
        self.start()

        async def away() -> int:
            raise StoreUnavailable("away")

        self.patch(self.made.other, "revision", away)
        self.successResultOf(self.caches.cache(MAPS).wait_fresh() or succeed(None))
        for reading in (self.caches.cache(SECRETS).wait_fresh(), self.caches.wait_fresh()):
            assert reading is not None
            self.failureResultOf(reading, StoreUnavailable)
