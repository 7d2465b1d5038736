"""URLs that lead to another program, another port, or a server that wants something else: one line that says so."""

from __future__ import annotations

import shutil
import socket
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from twisted.internet import protocol, reactor, ssl
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from kapi.store import connections, primary_connection
from kapi.store import failover as sentinel_module
from kapi.store.address import parse
from kapi.store.errors import StoreUnavailable
from kapi.store.factory import external_store
from tests.certificates import common_name, key_pem, pem, sign
from tests.store.certificates import make_authority, make_certificate
from tests.store.contract import Recorder
from tests.store.external_case import ExternalCase
from tests.store.servers import free_port
from tests.store.test_external import Forwarder
from tests.waiting import eventually


class Lines:
    """The warnings and errors that are logged meanwhile."""

    def __init__(self, case: ExternalCase) -> None:
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self)
        case.addCleanup(globalLogPublisher.removeObserver, self)

    def __call__(self, event: LogEvent) -> None:
        if event["log_level"] in (LogLevel.warn, LogLevel.error):
            self.lines.append(formatEvent(event))

    def count(self, words: str) -> int:
        return sum(words in line for line in self.lines)


class Says(protocol.Protocol):
    """Another program."""

    words = b""

    def dataReceived(self, data: bytes) -> None:
        self.transport.write(self.words)
        if not self.words:
            self.transport.loseConnection()


class MistakenURLs(ExternalCase):
    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.authority = make_authority(self.directory / "ca.pem")
        make_certificate(self.authority, self.directory / "server.pem", "localhost")
        make_certificate(self.authority, self.directory / "client.pem", "kapi")
        make_authority(self.directory / "other-ca.pem")

    def tls_port(self, wants_certificate: bool = False, certificate: str = "server.pem") -> int:
        """A port that speaks TLS, before a server."""
        server = self.server()
        factory = protocol.Factory()
        factory.buildProtocol = lambda addr: Forwarder(server.port)  # type: ignore[assignment,method-assign]
        pair = ssl.PrivateCertificate.loadPEM((self.directory / certificate).read_bytes())
        trusted = ssl.Certificate.loadPEM((self.directory / "ca.pem").read_bytes())
        options = pair.options(trusted) if wants_certificate else pair.options()
        port = reactor.listenSSL(0, factory, options, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        return int(port.getHost().port)

    def port_that_says(self, words: bytes) -> int:
        factory = protocol.Factory.forProtocol(type("Program", (Says,), {"words": words}))
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        return int(port.getHost().port)

    async def unavailable(self, url: str) -> str:
        text = await self.refused(url, StoreUnavailable)
        self.assertNotIn("\n", text)
        return text

    async def test_plain_text_to_a_port_with_tls(self) -> None:
        self.assertIn("use rediss://", await self.unavailable(f"redis://localhost:{self.tls_port()}"))

    async def test_plain_text_to_a_port_that_hangs_up(self) -> None:
        self.assertIn("use rediss://", await self.unavailable(f"redis://localhost:{self.port_that_says(b'')}"))

    async def test_tls_to_a_port_without_it(self) -> None:
        self.patch(connections, "REPLY_TIMEOUT", 2.0)
        self.assertIn("use redis://", await self.unavailable(f"rediss://localhost:{self.server().port}"))
        other = self.port_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        self.assertIn("use redis://", await self.unavailable(f"rediss://localhost:{other}"))

    async def test_another_program(self) -> None:
        port = self.port_that_says(b"SSH-2.0-OpenSSH_9.2\r\n")
        self.assertIn(
            "it is not Redis, it said 'SSH-2.0-OpenSSH_9.2'", await self.unavailable(f"redis://127.0.0.1:{port}")
        )

    async def test_a_certificate_without_its_ca(self) -> None:
        url = f"rediss://localhost:{self.tls_port()}"
        for options in ("", f"?ca={self.directory}/other-ca.pem"):
            self.assertIn("ca= in the URL names", await self.unavailable(url + options))

    async def test_a_certificate_that_has_expired(self) -> None:
        key, past = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC) - timedelta(days=400)
        old = sign(
            common_name("localhost"), key, self.authority, hosts=["localhost"], start=past, end=past + timedelta(1)
        )
        (self.directory / "old.pem").write_bytes(pem(old) + key_pem(key))
        port = self.tls_port(certificate="old.pem")
        text = await self.unavailable(f"rediss://localhost:{port}?ca={self.directory}/ca.pem")
        self.assertIn("the certificate has expired, or", text)

    async def test_a_certificate_for_another_name(self) -> None:
        port = self.tls_port()
        text = await self.unavailable(f"rediss://127.0.0.1:{port}?ca={self.directory}/ca.pem")
        self.assertIn("server-name= in the URL", text)
        await self.works(f"rediss://127.0.0.1:{port}?ca={self.directory}/ca.pem&server-name=localhost")

    async def test_a_server_that_wants_a_certificate(self) -> None:
        url = f"rediss://localhost:{self.tls_port(wants_certificate=True)}?ca={self.directory}/ca.pem"
        self.assertIn("cert= and key= in the URL", await self.unavailable(url))

    def test_options_of_tls_without_tls(self) -> None:
        for url in ("redis://h?ca=x", "unix:///s?cert=x", "redis+sentinel://h/m?server-name=x"):
            with self.assertRaisesRegex(ValueError, "is for TLS: use rediss://"):
                parse(url)
        with self.assertRaisesRegex(ValueError, "key= needs cert="):
            parse("rediss://h?key=x")

    async def test_a_database_that_there_is_not(self) -> None:
        self.assertIn("the server has no database 99", await self.refused(self.server().url + "/99"))

    async def test_a_sentinel_for_the_server_and_the_server_for_a_sentinel(self) -> None:
        server = self.server()
        sentinel = self.server(sentinel=f"sentinel monitor mymaster 127.0.0.1 {server.port} 1")
        self.assertIn("use redis+sentinel://", await self.refused(sentinel.url))
        text = await self.unavailable(f"redis+sentinel://127.0.0.1:{server.port}/mymaster")
        self.assertIn("it is not a Sentinel", text)

    async def test_no_sentinel_at_all(self) -> None:
        """It is tried again ten times a second, and said once."""
        self.patch(sentinel_module, "SENTINEL_TIMEOUT", 0.5)
        lines, port = Lines(self), self.port_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        store = external_store(f"redis+sentinel://127.0.0.1:{port}/mymaster", reactor, start_timeout=2)
        with self.assertRaisesRegex(StoreUnavailable, "it is not Redis, it said 'HTTP/1.1 400 Bad Request'"):
            await store.start(Recorder())
        await store.stop()
        self.assertEqual(len(lines.lines), 1, lines.lines)

    async def test_tls_to_a_sentinel_without_it(self) -> None:
        self.patch(sentinel_module, "SENTINEL_TIMEOUT", 0.5)
        sentinel = self.server(sentinel=f"sentinel monitor mymaster 127.0.0.1 {free_port()} 1")
        text = await self.unavailable(f"rediss+sentinel://127.0.0.1:{sentinel.port}/mymaster")
        self.assertIn("use redis+sentinel://", text)

    async def test_files_and_names_that_there_are_not(self) -> None:
        self.assertIn("No such file", await self.unavailable("unix:///nowhere/valkey.sock"))
        self.assertIn("nosuch.invalid", await self.unavailable("redis://nosuch.invalid:6379"))

    async def test_a_server_that_says_nothing_is_told_of_soon(self) -> None:
        """And that it is there, at the same level."""
        self.patch(primary_connection, "_SILENT_SECONDS", 0.3)
        self.patch(connections, "REPLY_TIMEOUT", 2.0)
        silent = socket.create_server(("127.0.0.1", free_port()))  # which is bound again
        port, lines = silent.getsockname()[1], Lines(self)
        store = external_store(f"redis://127.0.0.1:{port}", reactor, start_timeout=120)
        self.addCleanup(store.stop)
        starting = Deferred.fromCoroutine(store.start(Recorder()))
        await eventually(lambda: lines.count("waiting for the store: ") == 1)
        self.assertEqual(lines.count("no answer yet"), 1)
        silent.close()
        self.server(port=str(port), appendonly="yes", appendfsync="always")
        await starting
        self.assertEqual(lines.count("the store is there"), 1)
