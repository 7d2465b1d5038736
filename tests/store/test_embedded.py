"""The embedded server's life: begun early, taken back, and in place of one that was left behind."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import stat
import tempfile
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.store import embedded
from kapi.store.embedded import EmbeddedValkey, find_binary
from kapi.store.errors import UnsuitableStore
from kapi.store.factory import shared_store
from tests.store.contract import HEAD, TAIL, Recorder
from tests.waiting import eventually


class EmbeddedValkeyTest(TestCase):
    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kapi-valkey-"))
        self.addCleanup(shutil.rmtree, self.directory, True)

    def server(self) -> EmbeddedValkey:
        return EmbeddedValkey(self.directory, reactor)

    def test_the_binary_is_there(self) -> None:
        self.assertTrue(os.access(find_binary(), os.X_OK))

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
        store = shared_store(self.directory, reactor, patience=30)
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

    async def test_launch_refuses_a_directory_in_use(self) -> None:
        server = self.server()
        server.launch()
        try:
            with self.assertRaisesRegex(UnsuitableStore, "in use by another kapi"):
                self.server().launch()
            await server.start()
        finally:
            await server.stop()

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
        self.patch(embedded, "LEFTOVER_TIMEOUT", 0.5)
        left, ended = await self._left_behind()
        assert left.pid is not None
        os.kill(left.pid, signal.SIGSTOP)
        heir = self.server()
        await heir.start()
        await ended
        self.assertIsNotNone(heir.pid)
        await heir.stop()

    async def test_a_hanging_server_of_unknown_origin_is_one_clear_line(self) -> None:
        self.patch(embedded, "LEFTOVER_TIMEOUT", 0.5)
        left, ended = await self._left_behind()
        assert left.pid is not None
        os.kill(left.pid, signal.SIGSTOP)
        heir = self.server()
        self.patch(heir, "_listener", lambda: None)
        with self.assertRaisesRegex(UnsuitableStore, "a server that does not end is listening there"):
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
