"""Settings of a server with which it may lose data are logged at the usual verbosity, and so is their end."""

from __future__ import annotations

from twisted.internet import reactor
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from kapi.store import primary_connection
from kapi.store.errors import StoreUnavailable
from kapi.store.factory import external_store
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.external_case import ExternalCase
from tests.store.servers import Server
from tests.waiting import eventually

DURABLE = {"appendonly": "yes", "appendfsync": "always"}


class Risks(ExternalCase):
    def setUp(self) -> None:
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self.observe)
        self.addCleanup(globalLogPublisher.removeObserver, self.observe)
        self.patch(primary_connection, "_INFO_SECONDS", 1)

    def observe(self, event: LogEvent) -> None:
        if event["log_level"] in (LogLevel.warn, LogLevel.error):
            self.lines.append(formatEvent(event))

    async def begin(self, server: Server, url: str = "") -> None:
        self.store = external_store(url or server.url, reactor)
        await self.store.start(Recorder())
        self.addCleanup(self.store.stop)

    async def command(self, *words: str) -> None:
        await self.store._current().execute_command(*words)

    def logged(self, words: str) -> int:
        return sum(words in line for line in self.lines)

    async def test_nothing_is_said_of_a_durable_server(self) -> None:
        await self.begin(self.server(**DURABLE))
        self.assertEqual(self.lines, [])

    async def test_no_append_only_file(self) -> None:
        await self.begin(self.server())
        self.assertEqual(self.logged("appendonly is no"), 1)
        await self.command("CONFIG", "SET", "appendfsync", "always")
        await self.command("CONFIG", "SET", "appendonly", "yes")
        await eventually(lambda: self.logged("appendonly is right again"))
        self.assertEqual(self.logged("appendonly is no"), 1, "once, not at each look")

    async def test_a_file_that_is_not_synced_for_each_write(self) -> None:
        await self.begin(self.server(appendonly="yes", appendfsync="everysec"))
        self.assertEqual(self.logged("appendfsync is everysec"), 1)

    async def test_who_may_not_ask_for_settings_is_served(self) -> None:
        rights = "on >pw ~{kapi}:* +@read +@write +@scripting +@connection +info +time +script|load"
        server = self.server(user=f"kapi {rights}", **DURABLE)
        await self.begin(server, f"redis://kapi:pw@127.0.0.1:{server.port}")
        self.assertEqual(self.lines, [])

    async def test_an_eviction_policy_that_changes_later(self) -> None:
        await self.begin(self.server(**DURABLE))
        await self.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        await eventually(lambda: self.logged("maxmemory-policy is allkeys-lru"))
        await self.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        await eventually(lambda: self.logged("maxmemory-policy is right again"))


class Ends(ExternalCase):
    """The end of a fault is logged at the level of the fault: who sees the one sees the other."""

    def setUp(self) -> None:
        self.levels: dict[str, LogLevel] = {}
        globalLogPublisher.addObserver(self.observe)
        self.addCleanup(globalLogPublisher.removeObserver, self.observe)

    def observe(self, event: LogEvent) -> None:
        self.levels[formatEvent(event).partition(": ")[0]] = event["log_level"]

    async def test_of_an_outage(self) -> None:
        store = external_store(self.server(**DURABLE).url, reactor)
        await store.start(Recorder())
        self.addCleanup(store.stop)
        for connection in list(store._connections.open):
            connection.abort()
        await eventually(lambda: "store available again" in self.levels)
        self.assertIs(self.levels["store available again"], self.levels["store not available"])

    async def test_of_refused_writes(self) -> None:
        store = external_store(self.server(**DURABLE).url, reactor)
        await store.start(Recorder())
        self.addCleanup(store.stop)
        await store._current().execute_command("CONFIG", "SET", "min-replicas-to-write", "1")
        with self.assertRaises(StoreUnavailable):
            await store.create("k", HEAD, TAIL)
        await store._current().execute_command("CONFIG", "SET", "min-replicas-to-write", "0")
        await eventually(lambda: "the store takes writes again" in self.levels)
        self.assertIs(self.levels["the store takes writes again"], self.levels["the store refuses writes"])
