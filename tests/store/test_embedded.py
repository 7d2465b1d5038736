"""The embedded server's life: begun early, taken back, and in place of one that was left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.store.embedded import EmbeddedValkey, find_binary
from kapi.store.errors import UnsuitableStore


class EmbeddedValkeyTest(TestCase):
    timeout = 60

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
        left = self.server()
        await left.start()
        # as if its kapi had been killed: the lock is gone, the server is not
        left._release_lock()
        left._stopping = True
        ended: Deferred[None] | None = left._ended
        assert ended is not None
        heir = self.server()
        heir.launch()
        self.assertIsNone(heir.pid)  # nothing is started beside the old one
        await heir.start()
        await ended
        self.assertIsNotNone(heir.pid)
        await heir.stop()
