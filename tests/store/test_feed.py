"""The feed over real servers: foreign entries are skipped, a store that went back is noticed, a fault ends where it is."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

from twisted.internet import defer, reactor
from twisted.internet.task import deferLater
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase

from kapi.store.connection import Connection, ConnectionFactory
from kapi.store.errors import KeyExists, OutcomeUnknown, StoreUnavailable, UnsuitableStore
from kapi.store.factory import EmbeddedStore, external_store
from kapi.store.interface import Change, StoredObject
from kapi.store.loading import continues
from kapi.store.sweeper import MAX_BATCH
from tests.store.contract import HEAD, TAIL, Recorder, data
from tests.store.servers import Server
from tests.waiting import MAX_WAIT, eventually


class Failing(Recorder):
    """A follower that fails at the changes of one key, as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.failing_resets = 0

    def changed(self, changes: Sequence[Change]) -> None:
        if self.failures and any(change.key.endswith("bad") for change in changes):
            self.failures -= 1
            raise RuntimeError("the follower is broken")
        super().changed(changes)

    def reset(self, objects: Iterable[StoredObject], history: Sequence[Change], revision: int) -> None:
        if self.failing_resets:
            self.failing_resets -= 1
            raise RuntimeError("the follower is broken")
        super().reset(objects, history, revision)


class FeedCase(TestCase):
    pass


class SharedServer(FeedCase):
    """A store that others write to as well, kapi or not."""

    async def setUp(self) -> None:
        self.server = Server()
        self.follower = Failing()
        self.store = external_store(self.server.url, reactor)
        await self.store.start(self.follower)

    async def tearDown(self) -> None:
        await self.store.stop()
        self.server.stop()

    @property
    def names(self) -> list[str]:
        return sorted(key.rpartition("/")[2] for key in self.follower.objects)

    async def ask(self, *args: Any) -> Any:
        connection = await self.store.address.endpoint(reactor).connect(ConnectionFactory())
        try:
            return await connection.execute_command(*args)
        finally:
            connection.abort()

    async def write(self, *keys: str) -> int:
        revision = 0
        for key in keys:
            for _ in range(200):
                try:
                    revision = await self.store.create(f"g/r/n/{key}", HEAD, TAIL)
                    break
                except KeyExists as exists:  # an attempt before this one, whose outcome was unknown
                    revision = exists.revision
                    break
                except StoreUnavailable:
                    await deferLater(reactor, 0.02, lambda: None)
        return revision

    async def test_foreign_entries_of_the_stream_halt_nobody(self) -> None:
        await self.write("a")
        for identifier, fields in (
            ("1-1", ("x", "y")),
            ("1-2", ("c\xff", "y", "z", "w")),
            ("2-0", ("torn", "", "", "")),
            ("*", ("cgroup", "data")),
        ):
            await self.ask("XADD", "{kapi}:changes", identifier, *fields)
        # the next change removes what was in its way, read or not
        await eventually(lambda: self.store.skipped.counts["changes"] == 4)
        revision = await self.write("b", "c")
        await eventually(lambda: "c" in self.names)
        self.assertEqual((revision, self.names), (3, ["a", "b", "c"]))
        self.assertEqual(await self.store.revision(), 3)
        self.assertEqual(self.store.skipped.counts["changes"], 4)

    async def test_foreign_entries_prevent_no_start(self) -> None:
        await self.write("a", "b")
        await self.store.stop()
        await self.ask("XADD", "{kapi}:changes", "2-5", "x", "y")
        await self.ask("XADD", "{kapi}:changes", "*", "x", "y", "z", "w")
        await self.ask(
            "HSET", "{kapi}:objects", b"\xff\xfe", "1:1\nx", "g/r/n/b", "no header at all", "g/r/n/c", "x:1\ny",
            "g/r/n/e", "9" * 5000 + ":1\ny", "g/r/n/f", f"{1 << 60}:1\ny",
        )  # fmt: skip
        self.follower = Failing()
        self.store = external_store(self.server.url, reactor)
        await self.store.start(self.follower)
        revisions = {key: obj.revision for key, obj in self.follower.objects.items()}
        self.assertEqual(revisions, {"g/r/n/a": 1, "g/r/n/b": 0, "g/r/n/c": 0, "g/r/n/e": 0, "g/r/n/f": 0})
        self.assertEqual(self.store.skipped.counts, {"objects": 1, "changes": 2})
        self.assertEqual(await self.write("d"), 3)
        await eventually(lambda: "d" in self.names)
        self.assertEqual(await self.ask("XLEN", "{kapi}:changes"), 3)  # what was in the way of new changes is gone

    async def test_a_server_that_became_a_replica_is_a_line_and_no_fault_of_ours(self) -> None:
        await self.write("a")
        await self.ask("REPLICAOF", "127.0.0.1", "1")
        refused = deferLater(reactor, 0, self.store.create, "g/r/n/b", HEAD, TAIL)
        await self.assertFailure(refused, StoreUnavailable, OutcomeUnknown)
        await self.ask("REPLICAOF", "NO", "ONE")
        await self.write("c")
        await eventually(lambda: "c" in self.names)
        self.assertEqual(self.flushLoggedErrors(), [])

    async def test_a_change_that_is_torn_costs_one_load_not_one_after_another(self) -> None:
        await self.write("a", "b")
        await self.ask("INCR", "{kapi}:revision")
        await self.ask("XADD", "{kapi}:changes", "3-0", "c", "x", "torn", "y")
        await self.write("d", "e")
        await eventually(lambda: self.follower.revision == 5)
        resets = self.follower.resets
        self.assertLessEqual(resets, 2)
        await self.write("f")
        await eventually(lambda: "f" in self.names)
        await deferLater(reactor, 1.2, lambda: None)  # a look at the history goes by
        self.assertEqual(self.follower.resets, resets)

    async def test_a_key_of_another_type_is_named(self) -> None:
        await self.store.stop()
        await self.ask("DEL", "{kapi}:objects")
        await self.ask("SET", "{kapi}:objects", "x")
        self.store = external_store(self.server.url, reactor)
        with self.assertRaisesRegex(UnsuitableStore, "{kapi}:objects is a string, not the hash"):
            await self.store.start(Recorder())

    async def test_accounts_of_another_type_are_named(self) -> None:
        await self.store.stop()
        await self.ask("SET", "{kapi}:accounts", "x")
        self.store = external_store(self.server.url, reactor)
        with self.assertRaisesRegex(UnsuitableStore, "{kapi}:accounts is a string, not the hash"):
            await self.store.start(Recorder())

    async def test_a_follower_that_fails_gets_everything_again(self) -> None:
        await self.write("a")
        self.follower.failures = self.follower.failing_resets = 1
        await self.write("bad")
        await eventually(lambda: self.follower.resets == 2 and "bad" in self.names)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)
        await self.write("c")
        await eventually(lambda: "c" in self.names)

    async def test_a_follower_that_fails_while_it_gets_everything_gets_it_once_more(self) -> None:
        await self.write("a")
        await eventually(lambda: self.names == ["a"])
        await self.ask("FLUSHALL")
        self.follower.failing_resets = 1
        await eventually(lambda: self.follower.resets == 2)
        self.assertEqual(self.follower.objects, {})
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        await self.write("c")
        await eventually(lambda: self.names == ["c"])

    async def test_changes_that_are_missing_in_the_middle_are_logged(self) -> None:
        """As in a copy of files that were rewritten meanwhile; not those that were compacted."""
        lines: list[str] = []

        def observer(event: LogEvent) -> None:
            if event["log_level"] is LogLevel.error:
                lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        await self.write(*"abcdefgh")
        await self.ask("XDEL", "{kapi}:changes", "1-0", "2-0")
        for _ in range(2):
            other = external_store(self.server.url, reactor)
            await other.start(Recorder())
            await other.stop()
            self.assertEqual([line for line in lines if "are missing" not in line], [])
            missing, lines[:] = lines[:], []
            if not missing:
                await self.ask("XDEL", "{kapi}:changes", "5-0", "6-0")
        self.assertEqual(len(missing), 1)
        self.assertIn("changes after revision 4 are missing in the middle", missing[0])

    async def test_names_without_an_object_do_not_keep_others_from_expiring(self) -> None:
        stale = [word for number in range(MAX_BATCH + 50) for word in (1, f"g/r/n/gone{number}")]
        await self.ask("ZADD", "{kapi}:expires", *stale)
        await self.store.create("g/r/n/old", HEAD, TAIL, expires=2.0)
        self.assertEqual(await self.store._sweeper.sweep(), 1)
        await eventually(lambda: self.names == [])

    async def test_a_store_that_stops_while_it_connects_ends(self) -> None:
        connections = self.store._connections
        connect, gate, asked = connections.connect, defer.Deferred[None](), defer.Deferred[None]()

        async def slow() -> Connection:
            if not asked.called:
                asked.callback(None)
                await gate
            return await connect()

        self.patch(connections, "connect", slow)
        connections.open[0].abort()
        await asked
        stopping = defer.Deferred.fromCoroutine(self.store.stop())
        gate.callback(None)
        await stopping.addTimeout(MAX_WAIT, reactor)
        self.assertFalse(self.store.available)

    async def test_an_observer_that_fails_harms_no_write(self) -> None:
        def observe(operation: str, key: str, seconds: float) -> None:
            raise RuntimeError("broken")

        self.store.observe(observe)
        self.assertEqual(await self.store.create("a", HEAD, TAIL), 1)
        self.assertEqual(await self.store.create("b", HEAD, TAIL), 2)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)

    async def test_a_store_that_was_emptied_is_noticed_by_the_next_read(self) -> None:
        await self.write("a", "b")
        await eventually(lambda: self.follower.revision == 2)
        await self.ask("FLUSHALL")
        with self.assertRaisesRegex(StoreUnavailable, "went back"):
            await self.store.revision()
        await eventually(lambda: self.follower.resets == 2)
        self.assertEqual((self.follower.objects, self.follower.revision), ({}, 0))
        self.assertEqual(await self.write("c"), 1)

    async def test_a_store_that_was_emptied_is_noticed_without_a_read(self) -> None:
        await self.write("a")
        await eventually(lambda: self.follower.revision == 1)
        await self.ask("FLUSHALL")
        await eventually(lambda: self.follower.resets == 2)
        self.assertEqual(self.follower.objects, {})

    async def test_a_write_that_gets_a_revision_once_more_is_not_acknowledged(self) -> None:
        await self.write("a", "b")
        check = self.store._check
        assert check is not None
        check.stop()  # the write alone is to notice it
        await self.ask("EVAL", "redis.call('FLUSHALL')", 0)
        with self.assertRaises(OutcomeUnknown):
            await self.store.create("g/r/n/c", HEAD, TAIL)
        await eventually(lambda: self.names == ["c"])
        self.assertEqual((self.follower.resets, self.follower.revision), (2, 1))

    async def test_an_older_copy_is_noticed_though_it_has_the_same_name(self) -> None:
        await self.write("a")
        names = ("{kapi}:revision", "{kapi}:objects", "{kapi}:changes", "{kapi}:run")
        copies = {name: await self.ask("DUMP", name) for name in names}
        await self.write("b", "c")
        await eventually(lambda: self.follower.revision == 3)
        for name in names:
            await self.ask("RESTORE", name, 0, copies[name], "REPLACE")
        with self.assertRaisesRegex(StoreUnavailable, "went back"):
            await self.store.revision()
        await eventually(lambda: self.names == ["a"])
        self.assertEqual(self.follower.revision, 1)

    async def test_a_history_that_forked_at_the_same_revision_is_noticed(self) -> None:
        await self.write("a")
        names = ("{kapi}:revision", "{kapi}:objects", "{kapi}:changes")
        copies = {name: await self.ask("DUMP", name) for name in names}
        await self.write("b")
        await eventually(lambda: self.follower.revision == 2)
        script = """
        for position, name in ipairs(KEYS) do redis.call('RESTORE', name, 0, ARGV[position], 'REPLACE') end
        redis.call('INCR', KEYS[1])
        redis.call('HSET', KEYS[2], 'g/r/n/other', '2:1\\n{2}')
        redis.call('XADD', KEYS[3], '2-0', 'cg/r/n/other', '{2}')
        """
        await self.ask("EVAL", script, len(names), *names, *copies.values())
        await eventually(lambda: self.follower.resets == 2)
        self.assertEqual(self.names, ["a", "other"])

    async def test_compaction_of_what_we_know_is_no_reason_to_load_anything(self) -> None:
        await self.write("a", "b")
        await eventually(lambda: self.follower.revision == 2)
        progress = self.store._progress
        assert progress is not None
        connection = await self.store.address.endpoint(reactor).connect(ConnectionFactory())
        self.addCleanup(connection.abort)
        known = progress.newest
        await self.write("c")
        await self.ask("XTRIM", "{kapi}:changes", "MINID", "=", "3-0")
        self.assertTrue(await continues(connection, self.store._keys, 2, known))
        await self.ask("XDEL", "{kapi}:changes", "3-0")
        self.assertFalse(await continues(connection, self.store._keys, 2, known))

    async def test_a_counter_that_was_lost_follows_the_changes(self) -> None:
        await self.write("a", "b", "c")
        await eventually(lambda: self.follower.revision == 3)
        await self.ask("DEL", "{kapi}:revision")
        await eventually(lambda: self.follower.resets == 2)
        self.assertEqual(await self.write("d"), 4)


class ExclusiveServer(FeedCase):
    """A store that feeds itself by the replies to its own writes."""

    async def setUp(self) -> None:
        self.directory = tempfile.mkdtemp()
        self.follower = Failing()
        self.store: Any = EmbeddedStore(self.directory, reactor)
        await self.store.start(self.follower)

    async def tearDown(self) -> None:
        await self.store.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    async def test_all_writes_of_a_batch_are_answered_when_the_follower_fails(self) -> None:
        self.follower.failures = 1
        writes = [self.store.create(key, HEAD, TAIL) for key in ("a", "bad", "c")]
        results = await defer.DeferredList(writes, consumeErrors=True)
        self.assertTrue(all(done or failure.check(OutcomeUnknown) for done, failure in results))
        self.assertTrue(any(not done for done, _ in results))
        await eventually(lambda: sorted(self.follower.objects) == ["a", "bad", "c"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        await eventually(lambda: self.store.available)
        self.assertEqual(await self.store.create("d", HEAD, TAIL), 4)
        self.assertEqual(self.follower.objects["d"].data, data(4))

    async def test_what_another_program_does_to_it_is_noticed(self) -> None:
        await self.store.create("a", HEAD, TAIL)
        await self.store._reading.ask("FLUSHALL")
        await eventually(lambda: self.follower.resets == 2)
        self.assertEqual(self.follower.objects, {})
        await eventually(lambda: self.store.available)
        self.assertEqual(await self.store.create("b", HEAD, TAIL), 1)

    async def test_an_append_file_that_lost_its_end_is_noticed_after_the_restart(self) -> None:
        await self.store.create("a", HEAD, TAIL)
        length = {path: path.stat().st_size for path in self.store.server.directory.glob("appendonlydir/*.incr.aof")}
        await self.store.create("b", HEAD, TAIL)
        for path, size in length.items():
            with open(path, "r+b") as file:
                file.truncate(size)
        self.store.server._process.signalProcess("KILL")
        await eventually(lambda: self.follower.resets == 2)
        self.assertEqual(sorted(self.follower.objects), ["a"])
        await eventually(lambda: self.store.available)
        self.assertEqual(await self.store.create("c", HEAD, TAIL), 2)
