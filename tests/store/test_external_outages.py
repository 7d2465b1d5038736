"""An external server that goes away: what is answered meanwhile, and how it is found again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from twisted.internet import defer, reactor

from kapi.assembly.prepared import store_check
from kapi.store import connections
from kapi.store import failover as sentinel_module
from kapi.store.address import parse
from kapi.store.errors import StoreUnavailable
from kapi.store.factory import external_store
from kapi.store.failover import find_primary
from kapi.store.redis_store import RedisStore
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.external_case import ExternalCase
from tests.store.servers import Server, free_port
from tests.waiting import eventually


class Outage(ExternalCase):
    async def _disconnect(self, store: RedisStore) -> None:
        """Ends the connections and keeps the store from making new ones."""
        store._stopping = True
        for connection in list(store._connections.open):
            connection.abort()
        await eventually(lambda: store._connection is None)

    def _reconnect(self, store: RedisStore) -> None:
        store._stopping = False
        store._running = defer.ensureDeferred(store._keep_connected())

    async def test_a_server_that_comes_back(self) -> None:
        server = self.server(appendonly="yes", appendfsync="always")
        recorder = Recorder()
        store = external_store(server.url, reactor)
        await store.start(recorder)
        try:
            await recorder.reached(await store.create("a", HEAD, TAIL))
            server.process.kill()
            server.process.wait()
            await eventually(lambda: not store.available)
            with self.assertRaises(StoreUnavailable) as caught:
                await store.create("b", HEAD, TAIL)
            self.assertIn(str(server.port), str(caught.exception))
            again = Server.__new__(Server)
            again.directory, again.port = server.directory, server.port
            command = [*server.process.args]  # type: ignore[misc]
            again.process = subprocess.Popen(command)
            self.addCleanup(again.stop)
            again.wait()
            await eventually(lambda: store.available)
            await recorder.reached(await store.create("b", HEAD, TAIL))
            self.assertEqual((recorder.resets, sorted(recorder.objects)), (1, ["a", "b"]))
        finally:
            await store.stop()

    async def test_a_server_that_lost_its_data_is_noticed(self) -> None:
        server = self.server()
        recorder, store = Recorder(), external_store(server.url, reactor)
        await store.start(recorder)
        try:
            for n in range(3):
                await store.create(f"old{n}", HEAD, TAIL)
            await recorder.reached(3)
            await self._disconnect(store)
            other = external_store(server.url, reactor)
            await other.start()
            await other._reading.ask("FLUSHALL")
            for n in range(5):
                await other.create(f"new{n}", HEAD, TAIL)
            await other.stop()
            self._reconnect(store)
            await eventually(lambda: recorder.resets == 2)
            self.assertEqual(sorted(recorder.objects), [f"new{n}" for n in range(5)])
        finally:
            await store.stop()

    async def test_changes_that_were_compacted_while_away_are_noticed(self) -> None:
        server = self.server()
        recorder, store = Recorder(), external_store(server.url, reactor)
        other = external_store(server.url, reactor)
        await store.start(recorder)
        await other.start()
        try:
            await recorder.reached(await store.create("a", HEAD, TAIL))
            await self._disconnect(store)
            for n in range(5):
                await other.create(f"b{n}", HEAD, TAIL)
            await other.compact(5)
            self._reconnect(store)
            await eventually(lambda: recorder.resets == 2)
            self.assertEqual(len(recorder.objects), 6)
            self.assertEqual([change.revision for change in recorder.history], [6])
        finally:
            await other.stop()
            await store.stop()

    async def test_a_server_that_hangs(self) -> None:
        server = self.server()
        store = external_store(server.url, reactor)
        await store.start(Recorder())
        self.patch(connections, "REPLY_TIMEOUT", 1.0)
        try:
            os.kill(server.process.pid, signal.SIGSTOP)
            with self.assertRaises(StoreUnavailable):
                await store.create("a", HEAD, TAIL)
            await eventually(lambda: not store.available)
            with self.assertRaisesRegex(StoreUnavailable, "no answer for"):
                await store.get("a")
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
            await store.stop()

    async def test_rights_that_are_taken_away_are_named(self) -> None:
        """To everybody who asks, and not only to the one that met it."""
        server = self.server()
        store = external_store(server.url, reactor)
        await store.start(Recorder())
        try:
            with socket.create_connection(("127.0.0.1", server.port)) as operator:
                operator.sendall(b"ACL SETUSER default -evalsha\r\n")
                self.assertEqual(operator.recv(5), b"+OK\r\n")
            with self.assertRaisesRegex(StoreUnavailable, "NOPERM.*evalsha"):
                await store.create("a", HEAD, TAIL)
            await eventually(lambda: not store.available)
            with self.assertRaisesRegex(StoreUnavailable, "NOPERM.*evalsha"):
                await store.get("a")
        finally:
            await store.stop()

    async def test_a_password_that_is_changed(self) -> None:
        """The file is read for each connection."""
        server = self.server(requirepass="former")
        file = Path(tempfile.mkdtemp()) / "password"
        self.addCleanup(shutil.rmtree, file.parent, True)
        file.write_text("former\n")
        store = external_store(f"{server.url}?password-file={file}", reactor)
        await store.start(Recorder())
        try:
            await store._current().execute_command("CONFIG", "SET", "requirepass", "latter")
            for connection in list(store._connections.open):
                connection.abort()
            await eventually(lambda: "WRONGPASS" in store._why)
            file.write_text("latter\n")
            await eventually(lambda: store.available)
            await store.create("a", HEAD, TAIL)
        finally:
            await store.stop()

    async def test_a_health_check_sees_that_a_server_hangs(self) -> None:
        server = self.server()
        store = external_store(server.url, reactor)
        await store.start(Recorder())
        check = store_check(store, 1.0)
        try:
            self.assertEqual(check(), "")
            os.kill(server.process.pid, signal.SIGSTOP)
            await eventually(lambda: check() == "the store does not answer in time")
            self.assertTrue(store.available)  # it may come back
            os.kill(server.process.pid, signal.SIGCONT)
            await eventually(lambda: check() == "")
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
            await store.stop()


class Sentinel(ExternalCase):
    def sentinel(self, primary: Server, *lines: str) -> Server:
        return self.server(sentinel="\n".join((f"sentinel monitor mymaster 127.0.0.1 {primary.port} 1", *lines)))

    async def finds(self, *sentinels: object, options: str = "") -> int:
        """The port of the primary that these name; each is a server, a port, or ``user:password`` and a server."""
        hosts = ",".join(f"127.0.0.1:{each.port if isinstance(each, Server) else each}" for each in sentinels)
        address = parse(f"redis+sentinel://{hosts}/mymaster{options}")
        return (await find_primary(reactor, address))[1]

    async def test_the_primary_is_found(self) -> None:
        primary = self.server()
        sentinel = self.sentinel(primary)
        hosts = f"127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}"
        await self.works(f"redis+sentinel://{hosts}/mymaster", min_replicas=0)
        text = await self.refused(f"redis+sentinel://{hosts}/other", StoreUnavailable)
        self.assertIn("does not know 'other'", text)

    async def test_the_newest_configuration_is_believed(self) -> None:
        old, new = self.server(), self.server()
        outdated = self.sentinel(old, "sentinel config-epoch mymaster 3")
        current = self.sentinel(new, "sentinel config-epoch mymaster 7")
        self.assertEqual(await self.finds(outdated, current), new.port)
        self.assertEqual(await self.finds(current, outdated, free_port()), new.port)

    async def test_a_silent_sentinel_holds_nobody_up_for_long(self) -> None:
        self.patch(sentinel_module, "SENTINEL_TIMEOUT", 3.0)
        primary = self.server()
        silent, other = self.sentinel(primary), self.sentinel(primary)
        os.kill(silent.process.pid, signal.SIGSTOP)
        self.assertEqual(await self.finds(silent, other), primary.port)

    async def test_sentinels_with_a_password(self) -> None:
        primary = self.server()
        sentinel = self.sentinel(primary, "requirepass secret")
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory, True)
        (directory / "right").write_text("secret\n")
        (directory / "wrong").write_text("other\n")
        self.assertEqual(await self.finds(sentinel, options=f"?sentinel-password-file={directory}/right"), primary.port)
        for options, words in (("", "NOAUTH"), (f"?sentinel-password-file={directory}/wrong", "WRONGPASS")):
            with self.assertRaisesRegex(StoreUnavailable, words) as caught:
                await self.finds(sentinel, options=options)
            self.assertNotIn("other", str(caught.exception))

    async def test_the_servers_password_is_tried_too(self) -> None:
        primary = self.server(requirepass="secret")
        plain, guarded = self.sentinel(primary), self.sentinel(primary, "requirepass secret")
        for database, sentinel in enumerate((plain, guarded)):
            url = f"redis+sentinel://:secret@127.0.0.1:{sentinel.port}/mymaster/{database}"
            await self.works(url, min_replicas=0)

    async def test_a_replica_that_sentinels_name_is_not_written_to(self) -> None:
        primary = self.server()
        replica = self.server(replicaof=f"127.0.0.1 {primary.port}")
        sentinel = self.sentinel(replica)
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/mymaster"
        self.assertIn("that the Sentinels name is a replica", await self.refused(url, StoreUnavailable))
