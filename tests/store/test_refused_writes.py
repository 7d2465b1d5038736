"""Writes that the server refuses: nothing is half done, deletions work at maxmemory, and a check says so until it ends."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from kapi.store.errors import KeyExists, StoreUnavailable
from kapi.store.factory import external_store
from kapi.store.interface import Deletion
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.servers import Server
from tests.waiting import eventually


class RefusedWrites(TestCase):
    async def begin(self, recorder: Recorder | None = None) -> Any:
        server = Server()
        self.addCleanup(server.stop)
        self.store = external_store(server.url, reactor)
        await self.store.start(recorder)
        self.addCleanup(self.store.stop)
        return self.store

    async def command(self, *words: object) -> Any:
        return await self.store._connection.execute_command(*words)

    def problem(self) -> str:
        return str(self.store.checks()["store-writes"]())

    async def everything(self) -> list[Any]:
        keys = self.store._keys
        return [
            await self.command("GET", keys.revision),
            sorted(await self.command("HGETALL", keys.objects)),
            await self.command("XRANGE", keys.stream, "-", "+"),
            await self.command("ZRANGE", keys.expires, 0, -1),
        ]

    async def test_at_maxmemory_only_deletions_work_and_the_check_says_so(self) -> None:
        recorder = Recorder()
        store = await self.begin(recorder)
        first = await store.create("a", HEAD, TAIL, expires=5e9)
        second = await store.create("b", HEAD, TAIL)
        await self.command("CONFIG", "SET", "maxmemory", "1")
        before = await self.everything()
        self.assertEqual(self.problem(), "")
        for attempt in (store.create("c", HEAD, TAIL, expires=5e9), store.update("a", first, HEAD, TAIL)):
            with self.assertRaisesRegex(StoreUnavailable, "OOM"):
                await attempt
        self.assertEqual(await self.everything(), before)
        self.assertIn("OOM", self.problem())
        self.assertEqual(await store.delete("a", first, HEAD, TAIL), second + 1)
        await recorder.reached(second + 1)
        self.assertEqual(sorted(recorder.objects), ["b"])
        await store.delete_all([Deletion("b", second, HEAD, TAIL)])
        await recorder.reached(second + 2)
        self.assertEqual(recorder.objects, {})
        self.assertIn("OOM", self.problem(), "that deletions work does not mean that writes do")
        await self.command("CONFIG", "SET", "maxmemory", "0")
        await eventually(lambda: not self.problem())
        self.assertEqual(await store.create("c", HEAD, TAIL), second + 3)

    async def test_an_id_that_the_stream_does_not_take_changes_nothing(self) -> None:
        store = await self.begin()
        first = await store.create("a", HEAD, TAIL, expires=5e9)
        await self.command("XADD", store._keys.stream, "7000-0", "foreign", "entry")
        before = await self.everything()
        together = store.delete_all([Deletion("a", first, HEAD, TAIL)])
        for attempt in (store.create("b", HEAD, TAIL), store.delete("a", first, HEAD, TAIL), together):
            with self.assertRaisesRegex(StoreUnavailable, "equal or smaller"):
                await attempt
        before[2] = before[2][:1]  # what was in the way is removed, for nothing could be written any more
        self.assertEqual(await self.everything(), before)
        await eventually(lambda: not self.problem())
        self.assertEqual(await store.create("b", HEAD, TAIL), first + 1)

    async def test_keys_of_a_wrong_type_change_nothing(self) -> None:
        store = await self.begin()
        first = await store.create("a", HEAD, TAIL)
        names = store._keys
        for key in (names.stream, names.objects, names.revision, names.expires, names.accounts):
            there = await self.command("EXISTS", key)
            if there:
                await self.command("RENAME", key, b"kept")
            await self.command("RPUSH", key, "foreign")
            keys = [name for name in names if name not in (key, names.probe)]
            before = [await self.command("DUMP", name) for name in keys]
            for attempt in (
                store.update("a", first, HEAD, TAIL, expires=5e9, counted=first),
                store.delete("a", first, HEAD, TAIL),
                store.delete_all([Deletion("a", first, HEAD, TAIL)]),
            ):
                with self.assertRaisesRegex(StoreUnavailable, "WRONGTYPE"):
                    await attempt
            self.assertEqual([await self.command("DUMP", name) for name in keys], before, key)
            self.assertIn("WRONGTYPE", self.problem())
            await self.command("DEL", key)
            if there:
                await self.command("RENAME", b"kept", key)
            await eventually(lambda: not self.problem())
        self.assertEqual(await store.create("b", HEAD, TAIL), first + 1)

    async def test_too_few_replicas_for_the_server(self) -> None:
        store = await self.begin()
        await self.command("CONFIG", "SET", "min-replicas-to-write", "1")
        with self.assertRaisesRegex(StoreUnavailable, "NOREPLICAS"):
            await store.create("a", HEAD, TAIL)
        self.assertIn("NOREPLICAS", self.problem())
        await self.command("CONFIG", "SET", "min-replicas-to-write", "0")
        await eventually(lambda: not self.problem())

    async def test_a_forgotten_script_is_sent_again(self) -> None:
        store = await self.begin()
        await store.create("a", HEAD, TAIL)
        connection = store._connection
        await self.command("SCRIPT", "FLUSH")
        second, third = store.create("b", HEAD, TAIL), store.create("c", HEAD, TAIL)
        self.assertEqual(sorted([await second, await third]), [2, 3])
        await self.command("SCRIPT", "FLUSH")
        self.assertEqual(await store.delete("a", 1, HEAD, TAIL), 4)
        with self.assertRaises(KeyExists):
            await store.create("b", HEAD, TAIL)
        await self.command("SCRIPT", "FLUSH")
        self.assertEqual(await store.delete_all([Deletion("b", 2, HEAD, TAIL), Deletion("c", 3, HEAD, TAIL)]), [5, 6])
        self.assertIs(store._connection, connection, "the connection was kept")

    async def test_a_value_without_a_revision_counts_as_revision_0(self) -> None:
        store = await self.begin()
        await self.command("HSET", store._keys.objects, "torn", "no revision here")
        with self.assertRaises(KeyExists):
            await store.create("torn", HEAD, TAIL)
        self.assertEqual(await store.delete("torn", 0, HEAD, TAIL), 1)
        self.assertEqual(await store.create("torn", HEAD, TAIL), 2)
