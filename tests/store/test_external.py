"""External servers: logging in, TLS, Sentinel, what is refused, coming back after an outage."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from twisted.internet import defer, protocol, reactor, ssl
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from kapi.store.address import parse
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.factory import EmbeddedStore, external_store
from kapi.store.redis_store import RedisStore
from tests.store.certificates import make_authority, make_certificate
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.external_case import ExternalCase
from tests.store.servers import free_port


async def pause(seconds: float) -> None:
    await deferLater(reactor, seconds, lambda: None)


class Login(ExternalCase):
    async def test_plain_tcp_and_database(self) -> None:
        server = self.server()
        await self.works(server.url)
        await self.works(server.url + "/5")

    async def test_password(self) -> None:
        server = self.server(requirepass="secret")
        await self.works(f"redis://:secret@127.0.0.1:{server.port}")
        self.assertIn("WRONGPASS", await self.refused(f"redis://:wrong@127.0.0.1:{server.port}"))
        self.assertIn("NOAUTH", await self.refused(server.url))

    async def test_acl_user_with_the_documented_rights(self) -> None:
        rights = "on >pw ~{kapi}:* +@read +@write +@scripting +@connection +info +time +script|load"
        server = self.server(user=f"kapi {rights}")
        await self.works(f"redis://kapi:pw@127.0.0.1:{server.port}")
        self.assertNotIn("pw", await self.refused(f"redis://kapi:pwx@127.0.0.1:{server.port}"))
        server = self.server(user=f"kapi {rights} -time")
        self.assertIn("may not run TIME", await self.refused(f"redis://kapi:pw@127.0.0.1:{server.port}"))


class Clocks(ExternalCase):
    """What expires does so by the store's clock, whatever those of the servers on it show."""

    async def test_they_may_differ(self) -> None:
        server = self.server()
        stores = []
        for ahead in (0.0, 86_400.0, -86_400.0):
            store = RedisStore(parse(server.url), reactor, clock=lambda ahead=ahead: time.time() + ahead)
            stores.append(store)
            await store.start(Recorder())
            self.addCleanup(store.stop)
        for store in stores:
            for number, lifetime in enumerate((100.0, -1.0)):
                key = f"core/events/ns/e{stores.index(store)}-{number}"
                await store.create(key, HEAD, TAIL, expires=store._clock() + lifetime)
        self.assertEqual(await stores[1]._sweeper.sweep(), 3)
        self.assertEqual([await store._sweeper.sweep() for store in stores], [0, 0, 0])
        left = await stores[0].scan("core/events/")
        self.assertEqual(sorted(one.key for one in left), [f"core/events/ns/e{number}-0" for number in range(3)])


class Refusals(ExternalCase):
    async def test_eviction(self) -> None:
        server = self.server(maxmemory_policy="allkeys-lru")
        self.assertIn("maxmemory-policy is allkeys-lru", await self.refused(server.url))

    async def test_cluster_mode(self) -> None:
        server = self.server(cluster_enabled="yes")
        self.assertIn("cluster mode", await self.refused(server.url))

    async def test_replica(self) -> None:
        primary = self.server()
        replica = self.server(replicaof=f"127.0.0.1 {primary.port}")
        self.assertIn("replica", await self.refused(replica.url))

    async def test_unreachable(self) -> None:
        self.assertIn("cannot connect", await self.refused(f"redis://127.0.0.1:{free_port()}", StoreUnavailable))

    async def test_one_that_comes_late_is_waited_for(self) -> None:
        port, recorder = free_port(), Recorder()
        store = external_store(f"redis://127.0.0.1:{port}", reactor, start_timeout=120)
        self.addCleanup(store.stop)
        starting = defer.Deferred.fromCoroutine(store.start(recorder))
        await pause(0.2)
        self.assertFalse(starting.called)
        self.server(port=str(port))
        await starting
        await recorder.reached(await store.create("k", HEAD, TAIL))

    async def test_one_that_does_not_come_is_not_waited_for_longer(self) -> None:
        store = external_store(f"redis://127.0.0.1:{free_port()}", reactor, start_timeout=0.3)
        begin = reactor.seconds()
        with self.assertRaisesRegex(StoreUnavailable, "^redis://.*: cannot connect"):
            await store.start(Recorder())
        self.assertGreaterEqual(reactor.seconds() - begin, 0.3)
        await store.stop()

    async def test_what_cannot_be_used_is_not_waited_for(self) -> None:
        store = external_store(self.server(maxmemory_policy="allkeys-lru").url, reactor, start_timeout=1000)
        with self.assertRaises(UnsuitableStore):
            await store.start(Recorder())

    async def test_one_that_has_no_place_for_another_client_is_waited_for(self) -> None:
        server, recorder = self.server(), Recorder()
        other = socket.create_connection(("127.0.0.1", server.port))
        self.addCleanup(other.close)
        other.sendall(b"CONFIG SET maxclients 1\r\n")
        self.assertEqual(other.recv(5), b"+OK\r\n")
        store = external_store(server.url, reactor, start_timeout=120)
        self.addCleanup(store.stop)
        starting = defer.Deferred.fromCoroutine(store.start(recorder))
        await pause(0.2)
        self.assertFalse(starting.called)
        other.sendall(b"CONFIG SET maxclients 100\r\n")
        await starting
        await recorder.reached(await store.create("k", HEAD, TAIL))

    async def test_who_waits_for_it_can_be_stopped(self) -> None:
        store = external_store(f"redis://127.0.0.1:{free_port()}", reactor, start_timeout=1000)
        starting = defer.Deferred.fromCoroutine(store.start(Recorder()))
        await pause(0.2)
        await store.stop()
        with self.assertRaises(StoreUnavailable):
            await starting.addTimeout(60, reactor)

    async def test_too_old(self) -> None:
        class Old(protocol.Protocol):
            def dataReceived(self, data: bytes) -> None:
                info = b"redis_version:6.2.7\r\nredis_mode:standalone\r\nrole:master\r\n"
                self.transport.write(b"$%d\r\n%s\r\n" % (len(info), info))

        port = reactor.listenTCP(0, protocol.Factory.forProtocol(Old), interface="127.0.0.1")
        try:
            text = await self.refused(f"redis://127.0.0.1:{port.getHost().port}")
        finally:
            await port.stopListening()
        self.assertIn("Redis 6.2.7 is too old", text)

    async def test_bad_url(self) -> None:
        with self.assertRaisesRegex(UnsuitableStore, "--redis-servers: unknown scheme"):
            external_store("ftp://x", reactor)


class DataDirectory(TestCase):
    async def test_a_directory_has_one_user(self) -> None:
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory, True)
        first, second = EmbeddedStore(directory, reactor), EmbeddedStore(directory, reactor)
        await first.start(Recorder())
        try:
            with self.assertRaisesRegex(UnsuitableStore, "in use by another kapi"):
                await second.start(Recorder())
            self.assertEqual(await first.create("k", HEAD, TAIL), 1, "the first one is not disturbed")
        finally:
            await first.stop()

    async def test_a_directory_that_cannot_be_made(self) -> None:
        with self.assertRaisesRegex(UnsuitableStore, "data directory /dev/null/x"):
            await EmbeddedStore("/dev/null/x", reactor).start(Recorder())

    async def test_a_long_path_is_no_problem(self) -> None:
        parent = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, parent, True)
        store = EmbeddedStore(Path(parent) / ("x" * 120), reactor)
        await store.start(Recorder())
        self.addCleanup(shutil.rmtree, str(Path(store.server.socket_path).parent), True)
        await store.stop()

    async def test_files_are_private(self) -> None:
        directory = Path(tempfile.mkdtemp()) / "data"
        self.addCleanup(shutil.rmtree, str(directory.parent), True)
        store = EmbeddedStore(directory, reactor)
        await store.start(Recorder())
        try:
            self.assertEqual(directory.stat().st_mode & 0o077, 0)
            self.assertEqual(os.stat(store.server.socket_path).st_mode & 0o077, 0)
        finally:
            await store.stop()


class Forwarder(protocol.Protocol):
    """Ends TLS and forwards to the server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.waiting: list[bytes] = []
        self.peer: Any = None

    def connectionMade(self) -> None:
        outer = self

        class Inner(protocol.Protocol):
            def connectionMade(self) -> None:
                outer.peer = self.transport
                self.transport.write(b"".join(outer.waiting))

            def dataReceived(self, data: bytes) -> None:
                outer.transport.write(data)

        factory = protocol.ClientFactory.forProtocol(Inner)
        factory.noisy = False
        reactor.connectTCP("127.0.0.1", self.port, factory)

    def dataReceived(self, data: bytes) -> None:
        if self.peer is None:
            self.waiting.append(data)
        else:
            self.peer.write(data)

    def connectionLost(self, reason: Any = None) -> None:
        if self.peer is not None:
            self.peer.loseConnection()


class Tls(ExternalCase):
    async def asyncSetUp(self) -> tuple[int, Path]:
        server = self.server()
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory, True)
        authority = make_authority(directory / "ca.pem")
        make_certificate(authority, directory / "server.pem", "localhost")
        make_certificate(authority, directory / "client.pem", "kapi")
        make_authority(directory / "other-ca.pem")
        pem = (directory / "server.pem").read_bytes()
        certificate = ssl.PrivateCertificate.loadPEM(pem)
        trusted = ssl.Certificate.loadPEM((directory / "ca.pem").read_bytes())
        factory = protocol.Factory()
        factory.buildProtocol = lambda addr: Forwarder(server.port)  # type: ignore[assignment,method-assign]
        port = reactor.listenSSL(0, factory, certificate.options(trusted), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        return port.getHost().port, directory

    async def test_verified_with_client_certificate(self) -> None:
        port, directory = await self.asyncSetUp()
        await self.works(f"rediss://localhost:{port}?ca={directory}/ca.pem&cert={directory}/client.pem")

    async def test_certificates_of_others_are_refused(self) -> None:
        port, directory = await self.asyncSetUp()
        url = f"rediss://localhost:{port}?ca={directory}/other-ca.pem&cert={directory}/client.pem"
        self.assertIn("certificate verify failed", await self.refused(url, StoreUnavailable))

    async def test_the_name_is_checked(self) -> None:
        port, directory = await self.asyncSetUp()
        url = f"rediss://127.0.0.1:{port}?ca={directory}/ca.pem&cert={directory}/client.pem"
        self.assertIn("connection was lost", await self.refused(url, StoreUnavailable))

    async def test_unreadable_files(self) -> None:
        text = await self.refused("rediss://localhost:1?ca=/nowhere/ca.pem")
        self.assertIn("TLS files cannot be used", text)
