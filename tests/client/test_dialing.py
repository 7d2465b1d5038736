"""TLS as a Config says: verified, not verified, with a client's certificate, and through a proxy."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet import reactor, ssl
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from kapi.client.config import Config, ConfigError
from kapi.client.errors import ConnectionFailed
from kapi.client.rest import RESTClient
from kapi.client.session import Session
from tests.admission.certificates import make_certificate
from tests.waiting import accepted_ended
from tests.wire.connect_proxy import ConnectProxy

CERTIFICATE, KEY = make_certificate("127.0.0.1")
OTHER, OTHER_KEY = make_certificate("somebody.else")


class Hello(Protocol):
    factory: Any

    def dataReceived(self, data: bytes) -> None:
        self.factory.peers.append(self.transport.getPeerCertificate())  # type: ignore[union-attr]
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")  # type: ignore[union-attr]


class Proxy(Protocol):
    """CONNECT and nothing else."""

    factory: Any
    other: Any = None

    def dataReceived(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)
            return
        self.factory.seen.append(data)
        if self.factory.refuse:
            self.transport.write(b"HTTP/1.1 403 No way\r\n\r\n")  # type: ignore[union-attr]
            return
        port = int(data.split(b" ")[1].rpartition(b":")[2])
        mine = self

        class Other(Protocol):
            def dataReceived(self, data: bytes) -> None:
                mine.transport.write(data)  # type: ignore[union-attr]

        def connected(other: Any) -> None:
            self.other = other
            self.transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")  # type: ignore[union-attr]

        TCP4ClientEndpoint(reactor, "127.0.0.1", port).connect(Factory.forProtocol(Other)).addCallback(connected)

    def connectionLost(self, reason: Any = None) -> None:
        if self.other is not None:
            self.other.transport.abortConnection()


class Socks(Protocol):
    """SOCKS 5, for one user and the host ``server.test``, which is this machine; says what it says byte by byte."""

    factory: Any
    other: Any = None
    received = b""

    def connectionMade(self) -> None:
        self.steps = [(4, self.method), (9, self.user), (18, self.reach)]

    def dataReceived(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)
            return
        self.received += data
        while self.steps and len(self.received) >= self.steps[0][0]:
            length, step = self.steps.pop(0)
            data, self.received = self.received[:length], self.received[length:]
            self.factory.seen.append(data)
            step(data)

    def say(self, data: bytes) -> None:
        for number in data:
            self.transport.write(bytes((number,)))  # type: ignore[union-attr]

    def method(self, data: bytes) -> None:
        self.say(b"\5\2")

    def user(self, data: bytes) -> None:
        self.say(b"\1" + (b"\1" if self.factory.refuse == "user" else b"\0"))

    def reach(self, data: bytes) -> None:
        if self.factory.refuse:
            self.say(b"\5\5\0\1\0\0\0\0\0\0")
            return
        mine = self

        class Other(Protocol):
            def dataReceived(self, data: bytes) -> None:
                mine.transport.write(data)  # type: ignore[union-attr]

        def connected(other: Any) -> None:
            self.other = other
            self.say(b"\5\0\0\3\4name\0\1")

        port = int.from_bytes(data[-2:], "big")
        TCP4ClientEndpoint(reactor, "127.0.0.1", port).connect(Factory.forProtocol(Other)).addCallback(connected)

    def connectionLost(self, reason: Any = None) -> None:
        if self.other is not None:
            self.other.transport.abortConnection()


class DialingCase(TestCase):
    def setUp(self) -> None:
        self.server: Any = Factory.forProtocol(Hello)
        self.server.peers = []
        pair = ssl.PrivateCertificate.loadPEM(KEY + CERTIFICATE)
        options = pair.options(ssl.Certificate.loadPEM(OTHER))
        options.requireCertificate = False
        self.port = reactor.listenSSL(0, self.server, options, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.proxy: Any = Factory.forProtocol(Proxy)
        self.proxy.seen, self.proxy.refuse = [], False
        self.proxy_port = reactor.listenTCP(0, self.proxy, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.url = f"https://127.0.0.1:{self.port.getHost().port}"
        self.sessions: list[Session] = []

    async def tearDown(self) -> None:
        for session in self.sessions:
            await session.close()
        await self.port.stopListening()
        await self.proxy_port.stopListening()
        await accepted_ended()
        for warning in self.flushWarnings():
            self.assertIn("pyOpenSSL", str(warning["message"]))

    def ask(self, **how: Any) -> Deferred[Any]:
        session = Session.for_config(Config(**{"host": self.url, **how}), reactor)
        self.sessions.append(session)
        return Deferred.fromCoroutine(RESTClient(session).get().abs_path("/").do())

    async def test_the_configured_authority_is_trusted_and_no_other(self) -> None:
        self.assertEqual(await self.ask(ca=CERTIFICATE), {})
        for how in ({"ca": OTHER}, {}, {"ca": CERTIFICATE, "server_name": "somebody.else"}):
            with self.assertRaises(ConnectionFailed):
                await self.ask(**how)

    async def test_the_server_need_not_be_verified(self) -> None:
        self.assertEqual(await self.ask(insecure=True), {})

    async def test_a_client_certificate_is_shown(self) -> None:
        await self.ask(ca=CERTIFICATE, certificate=OTHER, key=OTHER_KEY)
        await self.ask(insecure=True, certificate=OTHER, key=OTHER_KEY)
        shown = [peer.to_cryptography().public_bytes(Encoding.PEM) for peer in self.server.peers]
        self.assertEqual(shown, [OTHER, OTHER])
        with self.assertRaises(ConfigError):
            await self.ask(ca=CERTIFICATE, certificate=b"nonsense", key=OTHER_KEY)

    async def test_a_proxy_is_asked_for_the_connection(self) -> None:
        proxy = f"http://me:pass@127.0.0.1:{self.proxy_port.getHost().port}"
        self.assertEqual(await self.ask(ca=CERTIFICATE, proxy_url=proxy), {})
        self.assertIn(b"Proxy-Authorization: Basic bWU6cGFzcw==", self.proxy.seen[0])
        with self.assertRaises(ConnectionFailed):
            await self.ask(ca=OTHER, proxy_url=proxy)
        self.proxy.refuse = True
        with self.assertRaises(ConnectionFailed) as caught:
            await self.ask(ca=CERTIFICATE, proxy_url=proxy)
        self.assertIn("403 No way", str(caught.exception))

    async def test_a_proxy_that_speaks_tls(self) -> None:
        """is believed by the same authority, and is shown the same certificate."""
        proxy = ConnectProxy(certificate=(CERTIFICATE, KEY), authority=OTHER)
        self.addCleanup(proxy.close)
        how: dict[str, Any] = {"certificate": OTHER, "key": OTHER_KEY, "proxy_url": f"https://127.0.0.1:{proxy.port}"}
        self.assertEqual(await self.ask(ca=CERTIFICATE, **how), {})
        self.assertEqual(len(proxy.asked), 1)
        with self.assertRaises(ConnectionFailed):
            await self.ask(ca=OTHER, **how)
        self.assertEqual(len(proxy.asked), 1)

    async def test_a_socks_proxy_finds_the_host(self) -> None:
        self.proxy.protocol = Socks
        where = f"127.0.0.1:{self.proxy_port.getHost().port}"
        port = self.port.getHost().port
        how: dict[str, Any] = {"ca": CERTIFICATE, "server_name": "127.0.0.1", "host": f"https://server.test:{port}"}
        self.assertEqual(await self.ask(proxy_url=f"socks5://me:pass@{where}", **how), {})
        asked = b"\5\1\0\3\x0bserver.test" + port.to_bytes(2, "big")
        self.assertEqual(self.proxy.seen, [b"\5\2\0\2", b"\1\2me\4pass", asked])
        for refuse, why in ((True, "connection refused"), ("user", "username/password authentication failed")):
            self.proxy.refuse = refuse
            with self.assertRaises(ConnectionFailed) as caught:
                await self.ask(proxy_url=f"socks5://me:pass@{where}", **how)
            self.assertIn(f"socks connect: {why}", str(caught.exception))
        self.proxy.refuse = False
        for url, host, why in (
            (f"socks5://{'x' * 256}:pass@{where}", how["host"], "invalid username"),
            (f"socks5://me:{'x' * 256}@{where}", how["host"], "invalid password"),
            (f"socks5://me:pass@{where}", f"https://{'x' * 256}:{port}", "invalid host"),
        ):
            with self.assertRaises(ConnectionFailed) as caught:
                await self.ask(proxy_url=url, **{**how, "host": host})
            self.assertIn(f"socks connect: {why}", str(caught.exception))

    def test_an_authority_that_is_none(self) -> None:
        self.failureResultOf(self.ask(ca=b"nonsense"), ConfigError)
