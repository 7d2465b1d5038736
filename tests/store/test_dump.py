"""A store's contents as of one revision while others write, and an empty store that is filled with them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from kapi.store import dump
from kapi.store.address import parse
from kapi.store.dump import EXPIRY, GONE, OBJECT, Contents, Dump, Record, Restore
from kapi.store.errors import KeyExists, KeyMissing, RevisionConflict, StoreUnavailable, UnsuitableStore
from kapi.store.factory import external_store
from kapi.store.redis_store import RedisStore
from kapi.store.script import Keys
from kapi.store.session import Session
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.external_case import ExternalCase
from tests.store.servers import Server

KEYS = Keys.under("kapi")
FAR = 5e9  # unix seconds


class Writer:
    """Creates, updates and deletes objects at random, with and without expiry, until it is ended."""

    def __init__(self, store: RedisStore, keys: int) -> None:
        self._store, self._keys = store, keys
        self._random = random.Random(7)
        self._ending = False
        self.running = [Deferred.fromCoroutine(self._run()) for _ in range(4)]

    async def _run(self) -> None:
        while not self._ending:
            key = f"core/things/ns/{self._random.randrange(self._keys)}"
            known = await self._store.get(key)
            tail = b"x" * self._random.randrange(3000)
            expires = self._random.choice((None, FAR + self._random.randrange(1000)))
            try:
                if known is None:
                    await self._store.create(key, HEAD, tail, expires=expires)
                elif self._random.random() < 0.4:
                    await self._store.delete(key, known.revision, HEAD, tail)
                else:
                    await self._store.update(key, known.revision, HEAD, tail, expires=expires)
            except (KeyExists, KeyMissing, RevisionConflict):
                continue

    async def end(self) -> None:
        self._ending = True
        for running in self.running:
            await running


class Answers:
    """A connection that gives the next answer to each command."""

    def __init__(self, **answers: Sequence[Any]) -> None:
        self._answers = {name: iter(values) for name, values in answers.items()}

    async def execute_command(self, name: str, *of: object) -> Any:
        return next(self._answers[name])


class Disturbances(SynchronousTestCase):
    def test_a_store_that_is_another_one_at_the_end(self) -> None:
        for run, revision, why in (
            (b"one", b"5", ""),
            (b"other", b"5", "emptied or replaced meanwhile"),
            (b"one", b"6", "the store's history was compacted while it was read"),
        ):
            connection: Any = Answers(MGET=[[b"5", b"one"]], HSCAN=[[b"0", []]], EVAL=[[revision, 0, []]], GET=[run])
            dumped = ensureDeferred(Dump(connection, KEYS, lambda records: None).run())
            if why:
                self.assertIn(why, str(self.failureResultOf(dumped, StoreUnavailable).value))
            else:
                self.assertEqual(self.successResultOf(dumped), Contents(5, 0))

    def test_a_restore_does_not_begin_in_a_store_that_is_not_empty(self) -> None:
        connection: Any = Answers(EXISTS=[1])
        begun = ensureDeferred(Restore(connection, KEYS, "there").begin())
        self.assertIn("there: the store is not empty", str(self.failureResultOf(begun, UnsuitableStore).value))

    def test_what_is_no_record(self) -> None:
        self.assertEqual(dump.parse([dump.OBJECT, b"k", b"v"]), Record(dump.OBJECT, b"k", b"v"))
        for reply in (b"o", [dump.OBJECT, b"k"], [b"?", b"k", b"v"]):
            with self.assertRaisesRegex(ValueError, "not a record of a backup"):
                dump.parse(reply)


class Dumps(ExternalCase):
    async def begin(self, server: Server) -> RedisStore:
        self.recorder = Recorder()
        store = external_store(server.url, reactor)
        await store.start(self.recorder)
        self.addCleanup(store.stop)
        return store

    async def dump(self, server: Server) -> tuple[Contents, list[Record]]:
        records: list[Record] = []
        async with Session(parse(server.url), reactor) as session:
            contents = await Dump(session.connection, KEYS, records.extend).run()
        return contents, records

    async def fill(self, server: Server, records: Sequence[Record], revision: int) -> None:
        async with Session(parse(server.url), reactor) as session:
            restoring = Restore(session.connection, KEYS, "there")
            await restoring.begin()
            for start in range(0, len(records), 50):
                await restoring.take(records[start : start + 50])
            await restoring.finish(revision)

    def state(self, revision: int) -> dict[str, bytes]:
        """The objects at that revision, by the changes that the follower received."""
        found: dict[str, bytes] = {}
        for change in self.recorder.history:
            if change.revision <= revision:
                if change.kind == "d":
                    found.pop(change.key)
                else:
                    found[change.key] = change.data
        return found

    async def test_under_writes_everything_is_as_of_one_revision(self) -> None:
        server, other = self.server(), self.server()
        store = await self.begin(server)
        writer = Writer(store, 300)
        try:
            for number in range(1, 11):
                await self.recorder.reached(31 * number)
                contents, records = await self.dump(server)
                await self.recorder.reached(contents.revision)
                await (await self.filled(other, records, contents.revision)).stop()
                self.assertEqual(
                    {key: one.data for key, one in self.restored.objects.items()}, self.state(contents.revision)
                )
                self.assertEqual(contents.objects, len(self.restored.objects))
                await self.emptied(other)
        finally:
            await writer.end()

    async def filled(self, server: Server, records: Sequence[Record], revision: int) -> RedisStore:
        await self.fill(server, records, revision)
        self.restored = Recorder()
        store = external_store(server.url, reactor)
        await store.start(self.restored)
        return store

    async def emptied(self, server: Server) -> None:
        async with Session(parse(server.url), reactor) as session:
            await session.connection.execute_command("FLUSHALL")

    async def test_times_of_expiry_are_kept(self) -> None:
        server, other = self.server(), self.server()
        store = await self.begin(server)
        writer = Writer(store, 100)
        await self.recorder.reached(50)
        contents, records = await self.dump(server)
        await writer.end()
        contents, records = await self.dump(server)
        await self.fill(other, records, contents.revision)
        found = []
        for each in (server, other):
            async with Session(parse(each.url), reactor) as session:
                found.append(await session.connection.execute_command("ZRANGE", KEYS.expires, 0, -1, "WITHSCORES"))
        self.assertTrue(found[0])
        self.assertEqual(found[0], found[1])

    async def test_revisions_go_on(self) -> None:
        server, other = self.server(), self.server()
        store = await self.begin(server)
        first = await store.create("a", HEAD, TAIL)
        second = await store.create("b", HEAD, TAIL)
        await store.delete("b", second, HEAD, TAIL)
        contents, records = await self.dump(server)
        self.assertEqual(contents, Contents(3, 1))
        again = await self.filled(other, records, contents.revision + 100)
        self.addCleanup(again.stop)
        self.assertEqual((self.restored.revision, self.restored.history), (103, []))
        self.assertEqual(await again.update("a", first, HEAD, b"new"), 104)
        self.assertEqual(await again.delete("a", 104, HEAD, b"new"), 105)
        self.assertNotEqual(again.run, store.run, "servers that know the former store load everything again")

    async def test_large_objects(self) -> None:
        server, other = self.server(), self.server()
        store = await self.begin(server)
        for n in range(12):
            await store.create(f"k{n}", HEAD, bytes([n]) * 2_000_000)
        contents, records = await self.dump(server)
        await (await self.filled(other, records, contents.revision)).stop()
        self.assertEqual({key: one.data for key, one in self.restored.objects.items()}, self.state(contents.revision))

    async def test_an_empty_store(self) -> None:
        server, other = self.server(), self.server()
        contents, records = await self.dump(server)
        self.assertEqual((contents, records), (Contents(0, 0), []))
        await (await self.filled(other, records, 7)).stop()
        self.assertEqual((self.restored.revision, self.restored.objects), (7, {}))

    async def test_entries_of_other_programs_are_kept_and_disturb_nothing(self) -> None:
        server, other = self.server(), self.server()
        store = await self.begin(server)
        await store.create("a", HEAD, TAIL)
        async with Session(parse(server.url), reactor) as session:
            await session.connection.execute_command("HSET", KEYS.objects, b"\xff", "x", "odd", "1:1\nx")
            await session.connection.execute_command("XADD", KEYS.stream, "1-7", "torn", "a", "b", "c")
        contents, records = await self.dump(server)
        self.assertEqual(contents.revision, 1)
        self.assertEqual({record.key for record in records}, {b"a", b"\xff", b"odd"})
        await self.fill(other, records, 1)

    async def test_history_that_is_compacted_meanwhile_is_an_error_and_no_hole(self) -> None:
        server = self.server()
        store = await self.begin(server)
        for n in range(100):
            await store.create(f"k{n}", HEAD, TAIL)

        class Disturbed(Dump):
            """Between two steps others write, and the history of that is dropped."""

            async def _scanned(self, names: Sequence[bytes], values: Sequence[bytes]) -> None:
                await super()._scanned(names, values)
                for n in range(3):
                    await store.create(f"late{n}-{names[0].decode()}", HEAD, TAIL)
                await store.compact(await store.revision())

        async with Session(parse(server.url), reactor) as session:
            with self.assertRaisesRegex(StoreUnavailable, "compacted"):
                await Disturbed(session.connection, KEYS, lambda records: None).run()

    async def test_a_store_that_is_not_empty_is_left_alone(self) -> None:
        server = self.server()
        store = await self.begin(server)
        revision = await store.create("a", HEAD, TAIL)
        with self.assertRaisesRegex(UnsuitableStore, r"not empty: it has keys that begin with \{kapi\}"):
            await self.fill(server, [Record(dump.OBJECT, b"b", b"1:0\n1")], 9)
        self.assertEqual(await store.revision(), revision)
        self.assertIsNone(await store.get("b"))

    async def test_one_that_is_filled_by_others_meanwhile_is_left_alone(self) -> None:
        server = self.server()
        async with Session(parse(server.url), reactor) as session:
            restoring = Restore(session.connection, KEYS, "there")
            await restoring.begin()
            await restoring.take([Record(dump.OBJECT, b"b", b"1:0\n1")])
            store = await self.begin(server)
            await store.create("a", HEAD, TAIL)
            with self.assertRaisesRegex(UnsuitableStore, "not empty"):
                await restoring.finish(9)
        self.assertEqual([one.key for one in await store.scan("")], ["a"])

    async def test_an_interrupted_restore_leaves_an_empty_store(self) -> None:
        server = self.server()
        self.patch(dump, "_MAX_BATCH_BYTES", 1)
        async with Session(parse(server.url), reactor) as session:
            restoring = Restore(session.connection, KEYS, "there")
            await restoring.begin()
            await restoring.take([Record(dump.OBJECT, b"b", b"1:0\n1"), Record(dump.EXPIRY, b"b", b"5")])
        store = await self.begin(server)
        self.assertEqual((self.recorder.objects, self.recorder.revision), ({}, 0))
        await store.stop()
        await self.emptied(server)
        await self.fill(server, [Record(dump.OBJECT, b"c", b"1:0\n1")], 9)
        await self.begin(server)
        self.assertEqual(sorted(self.recorder.objects), ["c"])


class Writing(SynchronousTestCase):
    """What a restore writes: of several records of a key the last one counts."""

    def test_expiry_belongs_to_the_object_before_it(self) -> None:
        for records, wanted in (
            ([(OBJECT, b"a", b"1")], [("HSET", b"a", b"1"), ("ZREM", b"a")]),
            ([(OBJECT, b"a", b"1"), (EXPIRY, b"a", b"9")], [("HSET", b"a", b"1"), ("ZADD", b"9", b"a")]),
            (
                [(OBJECT, b"a", b"1"), (EXPIRY, b"a", b"9"), (OBJECT, b"a", b"2")],
                [("HSET", b"a", b"2"), ("ZREM", b"a")],
            ),
            ([(OBJECT, b"a", b"1"), (GONE, b"a", b"")], [("HDEL", b"a"), ("ZREM", b"a")]),
            ([(GONE, b"a", b""), (OBJECT, b"a", b"1")], [("HSET", b"a", b"1"), ("ZREM", b"a")]),
            (
                [(OBJECT, b"a", b"1"), (OBJECT, b"b", b"2"), (EXPIRY, b"b", b"9"), (GONE, b"c", b"")],
                [("HDEL", b"c"), ("HSET", b"a", b"1", b"b", b"2"), ("ZREM", b"a", b"c"), ("ZADD", b"9", b"b")],
            ),
            ([], []),
        ):
            sent: list[tuple[object, ...]] = []

            def execute(name: str, key: bytes, *words: bytes, sent: list[tuple[object, ...]] = sent) -> Deferred[None]:
                self.assertEqual(key, b"{kapi}:new-" + (b"objects" if name.startswith("H") else b"expires"))
                sent.append((name, *words))
                return succeed(None)

            connection: Any = SimpleNamespace(execute_command=execute)
            restore = Restore(connection, Keys.under("kapi"), "there")
            taking = Deferred.fromCoroutine(restore.take([Record(*record) for record in records]))
            self.successResultOf(taking)
            self.assertEqual(sent, wanted)
