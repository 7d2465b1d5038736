"""The server's ``maxmemory``: history gives way, what makes nothing larger is written, and the check tells the truth."""

from __future__ import annotations

from twisted.internet import reactor
from twisted.internet.defer import gatherResults
from twisted.internet.task import deferLater

from kapi.store.errors import StoreFull
from kapi.store.factory import external_store
from kapi.store.memory_limit import KEPT_SECONDS, SMALL_OBJECT_BYTES
from kapi.store.redis_store import RedisStore
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.external_case import ExternalCase
from tests.waiting import eventually

BULK = b"x" * 50_000
MEGABYTE = 1_000_000


class Full(ExternalCase):
    async def begin(self, url: str = "") -> RedisStore:
        self.recorder = Recorder()
        store = external_store(url or self.server().url, reactor)
        await store.start(self.recorder)
        self.addCleanup(store.stop)
        return store

    async def limit(self, store: RedisStore, free: int) -> None:
        """Sets maxmemory so that this many bytes are free; negative: in use beyond it."""
        used = int((await store.info())["used_memory"])
        await store._current().execute_command("CONFIG", "SET", "maxmemory", used + free)

    async def history_may_go(self, store: RedisStore, revision: int) -> None:
        """Until the changes up to there are older than what is kept."""
        passed = store._writing.history._passed
        await eventually(lambda: len(passed) == KEPT_SECONDS and passed[0] >= revision)

    async def length(self, store: RedisStore) -> int:
        return int(await store._current().execute_command("XLEN", store._keys.stream))

    def problem(self, store: RedisStore) -> str:
        return store.checks()["store-writes"]()

    async def test_history_gives_way_to_writes(self) -> None:
        store = await self.begin()
        revision = await store.create("k", HEAD, BULK)
        for _ in range(60):
            revision = await store.update("k", revision, HEAD, BULK)
        await self.history_may_go(store, revision)
        await self.limit(store, -1)
        together = [store.create(f"many{n}", HEAD, BULK) for n in range(10)]
        self.assertEqual(await gatherResults(together), [revision + n for n in range(1, 11)])
        for n in range(10):
            revision = await store.create(f"one{n}", HEAD, BULK)
        await self.recorder.reached(revision)
        self.assertEqual(self.problem(store), "")
        self.assertLess(await self.length(store), 30)
        self.assertEqual(self.recorder.resets, 1)
        self.assertEqual(len(self.recorder.history), 61 + 20, "every change was passed on")

    async def test_another_server_on_the_store_misses_nothing(self) -> None:
        server = self.server()
        other, watching = await self.begin(server.url), self.recorder
        store = await self.begin(server.url)
        revision = await store.create("k", HEAD, BULK)
        await self.history_may_go(store, revision)
        await self.limit(store, 5 * MEGABYTE)
        for _ in range(200):  # twice as much as is free, and in two seconds less
            revision = await store.update("k", revision, HEAD, BULK)
            await deferLater(reactor, 0.03)
        await watching.reached(revision)
        self.assertEqual((watching.resets, self.recorder.resets, other.resets), (1, 1, 0))

    async def test_what_makes_nothing_larger_is_written_and_all_else_is_told_what_helps(self) -> None:
        store = await self.begin()
        size = len(HEAD) + 1 + len(BULK)
        large, small, gone = [await store.create(key, HEAD, BULK) for key in ("large", "small", "gone")]
        small = await store.update("small", small, HEAD, b"{}")
        await self.limit(store, -MEGABYTE)
        for attempt in (
            store.create("new", HEAD, TAIL),
            store.update("large", large, HEAD, BULK + b"x", replaced=size),
            store.update("small", small, HEAD, b"x" * SMALL_OBJECT_BYTES, replaced=len(HEAD) + 3),
        ):
            with self.assertRaisesRegex(StoreFull, "delete objects, or raise maxmemory"):
                await attempt
        self.assertIn("the store is full", self.problem(store))
        large = await store.update("large", large, HEAD, BULK, replaced=size)
        small = await store.update("small", small, HEAD, b"longer", replaced=len(HEAD) + 3)
        gone = await store.update("gone", gone, HEAD, BULK + b"deletionTimestamp", replaced=size, going=True)
        self.assertEqual(await store.delete("gone", gone, HEAD, BULK), gone + 1)
        await self.recorder.reached(gone + 1)
        self.assertEqual(sorted(self.recorder.objects), ["large", "small"])
        self.assertIn("the store is full", self.problem(store))

    async def test_deletions_make_space_within_seconds(self) -> None:
        store = await self.begin()
        revisions = [await store.create(f"k{n}", HEAD, BULK) for n in range(40)]
        await self.limit(store, -1)
        with self.assertRaises(StoreFull):
            await store.create("more", HEAD, BULK + BULK)
        for n, revision in enumerate(revisions[:30]):
            await store.delete(f"k{n}", revision, HEAD, BULK)
        await eventually(lambda: not self.problem(store))
        await store.create("more", HEAD, BULK + BULK)

    async def test_the_check_does_not_change_with_every_allocation_of_the_server(self) -> None:
        store = await self.begin()
        for n in range(40):
            revision = await store.create(f"k{n}", HEAD, BULK)
        await self.history_may_go(store, revision)
        await self.limit(store, -MEGABYTE * 3)  # more than the history has
        with self.assertRaises(StoreFull):
            await store.create("more", HEAD, BULK)
        await eventually(lambda: self.problem(store))
        problems = []
        for free in (3000, -3000) * 5:
            await self.limit(store, free)
            await deferLater(reactor, 0.4)
            problems.append(self.problem(store))
        self.assertNotIn("", problems)
        await self.limit(store, MEGABYTE)
        await eventually(lambda: not self.problem(store))

    async def test_a_server_that_writes_nothing_knows_it_too(self) -> None:
        server = self.server()
        writing, reading = await self.begin(server.url), await self.begin(server.url)
        await self.limit(writing, -MEGABYTE)
        await eventually(lambda: "the store is full" in self.problem(reading))
        await self.limit(writing, MEGABYTE)
        await eventually(lambda: not self.problem(reading))
