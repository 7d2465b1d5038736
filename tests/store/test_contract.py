"""One contract, every store."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from kapi.store.factory import EmbeddedStore, external_store
from kapi.store.interface import Change, StoredObject
from kapi.store.memory import MemoryStore
from kapi.store.redis_store import RedisStore
from tests.store.contract import StoreContract
from tests.store.servers import Server


class MemoryStoreTest(StoreContract, TestCase):
    """Nothing outlives the process, so the same object is started again."""

    kept: MemoryStore | None = None

    async def make_store(self) -> MemoryStore:
        self.kept = self.kept or MemoryStore()
        return self.kept


class EmbeddedStoreTest(StoreContract, TestCase):
    """The default store: a server of our own."""

    directory = ""

    async def make_store(self) -> Any:
        self.directory = self.directory or tempfile.mkdtemp()
        return EmbeddedStore(self.directory, reactor)

    async def clean_up(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class SharedStoreTest(StoreContract, TestCase):
    """A server that several processes use."""

    server: Server | None = None

    async def make_store(self) -> RedisStore:
        self.server = self.server or Server()
        return external_store(self.server.url, reactor, prefix="shared")

    async def clean_up(self) -> None:
        assert self.server is not None
        self.server.stop()

    async def test_two_processes_see_each_other(self) -> None:
        other = RedisStore(self.store.address, reactor, prefix="shared")
        await other.start()
        try:
            first = await other.create("a", b"", b"")
            await self.store.update("a", first, b"", b"!")
            await self.follower.reached(2)
        finally:
            await other.stop()
        self.assertEqual(self.follower.history, [Change(1, "c", "a", b"1"), Change(2, "u", "a", b"2!")])
        self.assertEqual(self.follower.objects, {"a": StoredObject("a", 2, b"2!")})
